// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/edge/kube"
)

var errNotSynced = errors.New("the cluster has not been read yet")

// connect returns clients of the API server. It sends no request.
func (c *Common) connect(log *slog.Logger, component string) (*kube.Clients, error) {
	clients, err := kube.NewClients(kube.Config{
		Kubeconfig: c.Kubeconfig, QPS: float32(c.QPS), Burst: int(min(c.Burst, math.MaxInt32)), Component: component, Version: buildVersion(),
		ReadOnly: c.dryRun,
	})
	if err != nil {
		return nil, err
	}
	log.Info("The cluster to work with", "server", clients.Config.Host, "kubeconfig", c.Kubeconfig)
	if c.dryRun {
		log.Info("This is a dry run: everything is decided and said, nothing is changed or stored")
	}
	return clients, nil
}

// outside reports whether this process runs outside of the cluster that it works with.
func (c *Common) outside() bool { return c.Kubeconfig != "" || !kube.InCluster() }

// watched restricts what is watched to the namespaces that are served.
func (c *Common) watched(o kube.Options) kube.Options {
	o.Namespace, o.Ignored, o.DryRun = c.Namespace, c.IgnoredNamespaces, c.dryRun
	o.Boosts = c.Gates.On(CPUStartupBoost)
	return o
}

// withWorld watches the cluster while work runs, and ends with it. It goes on while work winds up after ctx has ended: the
// webhook answers a little longer, for pods of controllers that are as new.
func withWorld(ctx context.Context, world *kube.World, work ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	world.Start(watching)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range work {
		g.Go(func() error {
			defer cancel()
			return w(ctx)
		})
	}
	err := g.Wait()
	stop()
	world.Wait()
	return err
}
