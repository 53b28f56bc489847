// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/profile"
)

// Connect returns clients of the API server, and the world that they watch from WithWorld on. On a terminal and in a trial, it first sends one
// request, so that a wrong address or a missing permission is one error, and not a warning of each watch. Elsewhere it sends none: there, a
// process waits until the API server can be reached.
func (c *Common) Connect(ctx context.Context, p *Process, component string, o watcher.Options) (*kube.Clients, *watcher.World, error) {
	config := c.Config
	config.Component = component
	config.Version = BuildVersion()
	clients, err := kube.NewClients(config)
	if err != nil {
		return nil, nil, err
	}
	if p.Terminal || c.IsTrial() {
		found, err := clients.Preflight(ctx, c.Namespace)
		if err != nil {
			return nil, nil, err
		}
		if !found {
			p.Log.Warn("No VPA objects found; podfit waits until one is created",
				slog.String("namespace", c.Namespace), slog.String("remedy", "try podfit recommend, which needs none"))
		}
	}
	p.Log.Info("Using the cluster", slog.String("server", clients.Config.Host), slog.String("kubeconfig", c.Kubeconfig))
	if c.ReadOnly {
		p.Log.Info("This is a dry run: decisions are logged, and no object is changed or stored")
	}
	o.Log = p.Log
	world := watcher.NewWorld(clients, c.Watched(o))
	p.Registry.MustRegister(NewWatchMetrics(world))
	return clients, world, nil
}

// Reader returns the default configuration of the clients of a command that a person runs, and that only reads.
func Reader(component string) kube.Config {
	return kube.Config{QPS: 50, Burst: 100, Component: component, Version: BuildVersion(), ReadOnly: true}
}

// ReaderFlags binds which cluster a command reads, and as whom.
func ReaderFlags(fs *pflag.FlagSet, c *kube.Config) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "Path of a kubeconfig file. Only required outside of a cluster.")
	fs.StringVar(&c.Context, "context", c.Context, "Context of the kubeconfig. Empty means its current context.")
	fs.StringVar(&c.As, "as", c.As, "User to impersonate for requests to the API server.")
}

// Outside reports whether this process runs outside of the cluster that it manages.
func (c *Common) Outside() bool { return c.Kubeconfig != "" || c.Context != "" || !kube.InCluster() }

// IsTrial reports whether this is a dry run outside of a pod: a person tries podfit, also if the log goes to a file or a pipe.
func (c *Common) IsTrial() bool { return c.ReadOnly && !kube.InCluster() }

// Watched restricts watches to the namespaces that are served.
func (c *Common) Watched(o watcher.Options) watcher.Options {
	o.Namespace = c.Namespace
	o.Ignored = c.IgnoredNamespaces
	o.DryRun = c.ReadOnly
	o.HPAs = c.HPA == HPALeave
	o.Plain = !c.OwnConditions
	o.Fixed = cluster.Fixed{Sidecars: !c.SizeSidecars, PodLevel: !c.SizePodLevel}
	o.Boosts = c.Gates.On(CPUStartupBoost)
	return o
}

// ReadProfiles adds the SizingProfiles of the cluster to a catalog. A cluster without the CRD has none.
func ReadProfiles(ctx context.Context, clients *kube.Clients, catalog *sizing.Catalog) error {
	list, err := clients.SizingProfiles(ctx)
	if err != nil && !errors.Is(err, kube.ErrUnsupported) {
		return err
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
		profile.Learn(catalog, list[i].Name, list[i].Version, list[i].JSON)
	}
	catalog.Listed(names)
	return nil
}

// WithWorld watches the cluster while work runs. After ctx has ended, the watches continue until work has returned, because the webhook
// still answers requests in that time, also for pods of new controllers.
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

// Together returns a function that runs several concurrently, and returns when all have returned. Those that are nil are left out. Their
// context ends with the first error.
func Together(all ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, do := range all {
			if do != nil {
				g.Go(func() error { return do(ctx) })
			}
		}
		return g.Wait()
	}
}

// Ended returns err, or nil if ctx has ended, which is then the cause of err.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
