// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"log/slog"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/contention"
	"podfit.dev/podfit/internal/app/recommender/enrollment"
	"podfit.dev/podfit/internal/app/recommender/forecast"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	client "podfit.dev/podfit/internal/edge/kube/enrollment"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// newCapacityLoop returns the work that keeps the CapacityPlan up to date, nil if it is off. Usage is what the recommender reads for its
// recommendations: d gets the place from which the loop takes it.
func newCapacityLoop(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World, m *Metrics, d *dependencies) (func(context.Context) error, error) {
	if !c.CapacityPlan || c.Name != "default" { // recommenders with other names run beside the one that writes it
		return nil, nil
	}
	if !c.WatchesAllPods() {
		p.Log.Info("The CapacityPlan is off, because not all namespaces are watched", slog.String("flag", "capacity-plan"))
		return nil, nil
	}
	o := forecast.Dependencies{World: world, Plans: capacityplan.New(clients), Metrics: m.capacity, DryRun: c.ReadOnly, Log: p.Log}
	if !c.ExternalMetrics { // external metrics are only of some pods
		o.Usage = new(forecast.Usage)
		d.forecast = o.Usage
	}
	if c.HasPrometheus() {
		past, err := c.History.Client(m.history)
		if err != nil {
			return nil, err
		}
		o.Past = past.Requests
	}
	return afterSync(world, func(ctx context.Context) { forecast.New(o).Run(ctx, p) }), nil
}

// newObserver returns what reads the CPU throttling of containers, nil if there is no Prometheus.
func newObserver(c *Config, m *Metrics, h *process.Health, log *slog.Logger) (*contention.Observer, error) {
	if !c.HasPrometheus() {
		return nil, nil
	}
	source := c.ThrottlingSource()
	client, err := source.Client(m.history)
	if err != nil {
		return nil, err
	}
	return contention.NewObserver(client.ContainerThrottling, h, log), nil
}

// ThrottlingSource returns where CPU throttling is read: in the Prometheus of the history. The default names of its labels are those of
// Kubernetes before 1.16, so they are replaced by those of the kubelet.
func (c *Config) ThrottlingSource() history.PrometheusConfig {
	h := c.History
	older := history.PrometheusDefaults()
	if h.PodLabel == older.PodLabel {
		h.PodLabel = "pod"
	}
	if h.ContainerLabel == older.ContainerLabel {
		h.ContainerLabel = "container"
	}
	return h
}

// newEnrollment returns the work that maintains VPAs of namespaces that opt in, nil if it is off. Recommenders with other names run beside the one
// that does it.
func newEnrollment(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World, m *Metrics) func(context.Context) error {
	if !c.OptIn || c.Name != "default" {
		return nil
	}
	return afterSync(world, func(ctx context.Context) {
		l := enrollment.Loop{World: world, Client: &client.Client{Clients: clients}, Serves: c.Common.Serves, Writes: m.optIn, DryRun: c.ReadOnly, Log: p.Log, Book: optin.Book{}}
		process.Every(ctx, c.Interval, p.Recovering("namespaceOptIn", l.Pass))
	})
}

// afterSync returns work that begins when all resources are listed.
func afterSync(world *watcher.World, do func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		do(ctx)
		return nil
	}
}
