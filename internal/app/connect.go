// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"math"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/edge/kube"
)

var errNotSynced = errors.New("the cluster has not been read yet")

// connect returns clients of the API server. It sends no request.
func (c *Common) connect(component string) (*kube.Clients, error) {
	return kube.NewClients(kube.Config{
		Kubeconfig: c.Kubeconfig, QPS: float32(c.QPS), Burst: int(min(c.Burst, math.MaxInt32)), Component: component, Version: buildVersion(),
	})
}

// watched restricts what is watched to the namespaces that are served.
func (c *Common) watched(o kube.Options) kube.Options {
	o.Namespace, o.Ignored = c.Namespace, c.IgnoredNamespaces
	return o
}

// withWorld watches the cluster while work runs, and ends with it.
func withWorld(ctx context.Context, world *kube.World, work ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	world.Start(ctx)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range work {
		g.Go(func() error {
			defer cancel()
			return w(ctx)
		})
	}
	err := g.Wait()
	cancel()
	world.Wait()
	return err
}
