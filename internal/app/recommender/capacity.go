// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"log/slog"
	"strings"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/forecast"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// newCapacityLoop returns the work that keeps the CapacityPlan up to date, nil if it is off. Usage is what the recommender reads for its
// recommendations, so d gets a sampler that shares it.
func newCapacityLoop(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World, m *Metrics, d *dependencies) (func(context.Context) error, error) {
	if !c.CapacityPlan || c.Name != "default" { // recommenders with other names run beside the one that writes it
		return nil, nil
	}
	if c.Common.Namespace != "" || strings.Join(c.Common.IgnoredNamespaces, "") != "" {
		p.Log.Info("The CapacityPlan is off, because not all namespaces are watched", slog.String("flag", "capacity-plan"))
		return nil, nil
	}
	plans, err := capacityplan.New(clients)
	if err != nil {
		return nil, err
	}
	o := forecast.Dependencies{World: world, Plans: plans, Metrics: m.capacity, DryRun: c.ReadOnly, Log: p.Log}
	if !c.ExternalMetrics { // external metrics are only of some pods
		o.Usage = new(forecast.Usage)
		next := d.usage
		d.usage = func(serves func(*cluster.Autoscaler) bool) sampler { return o.Usage.Watch(next(serves)) }
	}
	if c.HasPrometheus() {
		if o.Past, err = c.History.Client(m.history); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		forecast.New(o).Run(ctx, p)
		return nil
	}, nil
}

// beside returns a function that runs two others concurrently, and returns when both have returned.
func beside(work, other func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return work(ctx) })
		g.Go(func() error { return other(ctx) })
		return g.Wait()
	}
}
