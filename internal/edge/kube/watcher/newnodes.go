// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	newNodesRefresh = 5 * time.Minute  // interval of reading the objects that describe nodes that can be added
	newNodesRetry   = 10 * time.Second // after a failed read
	newNodesTimeout = time.Minute      // of reading the objects of a kind
	maxNewNodes     = 1000             // objects of a kind that are read
)

// newNodes are the nodes that an autoscaler of the cluster can add. The mutex of the World guards them.
type newNodes struct {
	all    []cluster.NewNode
	known  bool            // they were read once
	denied map[string]bool // resources that podfit has no right to read; logged once
}

// NewNodes returns the nodes that Karpenter (NodePool) or the cluster autoscaler with the Cluster API (MachineDeployment) can add. It
// returns false while they are unknown. Without these kinds, or without the right to read them, there are none.
func (w *World) NewNodes() (all []cluster.NewNode, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newNodes.all, w.newNodes.known
}

// readNewNodes reads the nodes that can be added again and again until ctx ends.
func (w *World) readNewNodes(ctx context.Context) {
	for {
		wait := newNodesRefresh
		pools, err := w.readable(ctx, "nodepools.karpenter.sh", w.nodePools)
		groups, err2 := w.readable(ctx, "machinedeployments.cluster.x-k8s.io", w.nodeGroups)
		if err == nil && err2 == nil {
			w.mu.Lock()
			w.newNodes.all, w.newNodes.known = slices.Concat(pools, groups), true
			w.mu.Unlock()
		} else {
			wait = newNodesRetry
		}
		if !kube.Sleep(ctx, wait) {
			return
		}
	}
}

// readable reads a kind of object. If the cluster does not have the kind, or podfit may not read it, there are no objects.
func (w *World) readable(ctx context.Context, name string, read func(context.Context) ([]cluster.NewNode, error)) ([]cluster.NewNode, error) {
	ctx, cancel := context.WithTimeout(ctx, newNodesTimeout)
	defer cancel()
	all, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.newNodes.denied[name] {
			w.newNodes.denied[name] = true
			w.log.Info("Cannot read an optional resource; podfit runs without it", slog.String("resource", name),
				slog.String("impact", "podfit does not know which nodes can be added"),
				slog.String("remedy", "grant list on "+name+", as deploy/10-rbac.yaml does, or set --max-node-cpu and --max-node-memory"), slog.Any("error", err))
		}
		return nil, nil
	case err != nil && ctx.Err() == nil:
		w.log.Warn("Cannot read which nodes can be added; the last known ones are kept", slog.String("resource", name), slog.Any("error", err))
	}
	return all, err
}

func (w *World) nodePools(ctx context.Context) ([]cluster.NewNode, error) {
	raw, err := w.clients.Core.CoreV1().RESTClient().Get().AbsPath("/apis/karpenter.sh/v1/nodepools").
		Param("limit", strconv.Itoa(maxNewNodes)).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	return projection.NodePools(raw)
}

func (w *World) nodeGroups(ctx context.Context) ([]cluster.NewNode, error) {
	list, err := w.clients.Metadata.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machinedeployments"}).
		List(ctx, metav1.ListOptions{Limit: maxNewNodes})
	if err != nil {
		return nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	var out []cluster.NewNode
	for i := range list.Items {
		if n, ok := projection.NodeGroup(&list.Items[i]); ok {
			out = append(out, n)
		}
	}
	return out, nil
}
