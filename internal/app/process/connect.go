// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"log/slog"
	"math"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// Connect returns clients of the API server. It sends no request.
func (c *Common) Connect(log *slog.Logger, component string) (*kube.Clients, error) {
	clients, err := kube.NewClients(kube.Config{
		Kubeconfig: c.Kubeconfig, QPS: float32(c.QPS), Burst: int(min(c.Burst, math.MaxInt32)), Component: component, Version: BuildVersion(),
		ReadOnly: c.ReadOnly,
	})
	if err != nil {
		return nil, err
	}
	log.Info("The cluster to work with", "server", clients.Config.Host, "kubeconfig", c.Kubeconfig)
	if c.ReadOnly {
		log.Info("This is a dry run: everything is decided and said, nothing is changed or stored")
	}
	return clients, nil
}

// Outside reports whether this process runs outside of the cluster that it works with.
func (c *Common) Outside() bool { return c.Kubeconfig != "" || !kube.InCluster() }

// Watched restricts what is watched to the namespaces that are served.
func (c *Common) Watched(o watcher.Options) watcher.Options {
	o.Namespace, o.Ignored, o.DryRun = c.Namespace, c.IgnoredNamespaces, c.ReadOnly
	o.Boosts = c.Gates.On(CPUStartupBoost)
	return o
}

// WithWorld watches the cluster while work runs, and ends with it. It goes on while work winds up after ctx has ended: the
// webhook answers a little longer, for pods of controllers that are as new.
func WithWorld(ctx context.Context, world *watcher.World, work ...func(context.Context) error) error {
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

// Ended returns nil when ctx ended, because then that is the reason of err, and nobody's fault.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
