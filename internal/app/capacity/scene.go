// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
)

type scene struct {
	now     time.Time
	world   capacity.World
	missing []string // what could not be read
}

func readScene(ctx context.Context, clients *kube.Clients) (*scene, error) {
	const readTimeout = time.Minute // the maximum time for reading the state of the cluster
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	world := watcher.NewWorld(clients, watcher.Options{Pods: watcher.AllPods, Nodes: true, VPAsOptional: true, Log: slog.New(slog.DiscardHandler)})
	s := new(scene)
	for _, u := range world.Load(ctx) {
		switch {
		case u.Lost == "" || u.Resource == "nodes":
			if apierrors.IsForbidden(u.Err) {
				return nil, fmt.Errorf("read the cluster: list %s: %w; grant list on %s in all namespaces, or choose another user with --context or --as", u.Resource, u.Err, u.Resource)
			}
			return nil, fmt.Errorf("read the cluster: list %s: %w", u.Resource, u.Err)
		case apierrors.IsForbidden(u.Err):
			s.missing = append(s.missing, "no right to list "+u.Resource)
		case !apierrors.IsNotFound(u.Err):
			s.missing = append(s.missing, fmt.Sprintf("%s: %v", u.Resource, u.Err))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	s.now = time.Now()
	s.world = capacity.World{
		Nodes: world.Nodes(), Snapshot: world.Snapshot(), Selectors: world.Selectors(), Tolerations: world.Tolerations(), Used: readUsage(ctx, clients),
	}
	if len(s.world.Nodes) == 0 {
		return nil, fmt.Errorf("the cluster has no nodes")
	}
	return s, nil
}

// readUsage returns the present usage of each pod; nil if the cluster has no Metrics API, or podfit may not read it.
func readUsage(ctx context.Context, clients *kube.Clients) map[cluster.Key]cluster.Resources {
	client, err := metrics.New(clients.Config, clients.HTTP, "")
	if err != nil {
		return nil
	}
	reading, err := client.Read(ctx)
	if err != nil {
		return nil
	}
	return capacity.UsageByPod(reading.Samples, time.Now())
}
