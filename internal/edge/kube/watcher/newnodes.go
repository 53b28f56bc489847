// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
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

// A nodeSet has the nodes of the cluster, and those that an autoscaler of the cluster can add.
type nodeSet struct {
	*base
	nodes         store[cluster.Node]
	sizes         map[string]string // the size class of each node; nil if it has to be built again
	newNodes      []cluster.NewNode
	newNodesKnown bool            // they were read once
	denied        map[string]bool // resources that podfit has no right to read; logged once
}

// nodeChanged signals if a node can take pods now that it could not take before. The mutex is held.
func (s *nodeSet) nodeChanged(_ cluster.Key, before, now *cluster.Node) {
	if before == nil || now == nil || before.Allocatable != now.Allocatable {
		s.sizes = nil
	}
	if now == nil {
		return
	}
	takesPods := now.Ready && !now.Cordoned
	tookThem := before != nil && before.Ready && !before.Cordoned && now.Allocatable.CPU <= before.Allocatable.CPU && now.Allocatable.Memory <= before.Allocatable.Memory
	if s.urgent.waits.LargerNode && takesPods && !tookThem {
		s.urgent.notify()
	}
}

// withNodeSizes returns the autoscaler with the sizes of the nodes, if its pods are sized by them. The mutex is held.
func (s *nodeSet) withNodeSizes(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || !a.SizesByNode() {
		return a
	}
	if s.sizes == nil {
		s.sizes = make(map[string]string, len(s.nodes.at[""]))
		for name, n := range s.nodes.at[""] {
			s.sizes[name] = n.SizeClass()
		}
	}
	out := *a
	out.NodeSizes = s.sizes
	return &out
}

// Nodes returns all nodes, sorted by name.
func (s *nodeSet) Nodes() []cluster.Node {
	out := make([]cluster.Node, 0, s.nodes.count())
	s.nodes.each(func(_ cluster.Key, n cluster.Node) { out = append(out, n) })
	slices.SortFunc(out, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// NewNodes returns the nodes that Karpenter (NodePool) or the cluster autoscaler with the Cluster API (MachineDeployment) can add. It
// returns false while they are unknown. Without these kinds, or without the right to read them, there are none.
func (s *nodeSet) NewNodes() (all []cluster.NewNode, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newNodes, s.newNodesKnown
}

// readNewNodes reads the nodes that can be added again and again until ctx ends.
func (s *nodeSet) readNewNodes(ctx context.Context) {
	for {
		wait := newNodesRefresh
		if s.loadNewNodes(ctx) != nil {
			wait = newNodesRetry
		}
		if !kube.Sleep(ctx, wait) {
			return
		}
	}
}

// readable reads a kind of object. If the cluster does not have the kind, or podfit may not read it, there are no objects.
func (s *nodeSet) readable(ctx context.Context, name string, read func(context.Context) ([]cluster.NewNode, error)) ([]cluster.NewNode, error) {
	ctx, cancel := context.WithTimeout(ctx, newNodesTimeout)
	defer cancel()
	all, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.denied[name] {
			cluster.Put(&s.denied, name, true)
			s.log.Info("Cannot read an optional resource; podfit runs without it", slog.String("resource", name),
				slog.String("impact", "podfit does not know which nodes can be added"),
				slog.String("remedy", "grant list on "+name+", as deploy/10-rbac.yaml does, or set --max-node-cpu and --max-node-memory"), slog.Any("error", err))
		}
		return nil, nil
	case err != nil && ctx.Err() == nil:
		s.log.Warn("Cannot read which nodes can be added; the last known ones are kept", slog.String("resource", name), slog.Any("error", err))
	}
	return all, err
}

func (s *nodeSet) nodePools(ctx context.Context) ([]cluster.NewNode, error) {
	raw, err := s.clients.Core.CoreV1().RESTClient().Get().AbsPath("/apis/karpenter.sh/v1/nodepools").
		Param("limit", strconv.Itoa(maxNewNodes)).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	return projection.NodePools(raw)
}

func (s *nodeSet) nodeGroups(ctx context.Context) ([]cluster.NewNode, error) {
	list, err := s.clients.Metadata.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machinedeployments"}).
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

// loadNewNodes reads the nodes that can be added. Without the right to read them, there are none.
func (s *nodeSet) loadNewNodes(ctx context.Context) error {
	pools, err := s.readable(ctx, "nodepools.karpenter.sh", s.nodePools)
	groups, groupsErr := s.readable(ctx, "machinedeployments.cluster.x-k8s.io", s.nodeGroups)
	if err := cmp.Or(err, groupsErr); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newNodes = slices.Concat(pools, groups)
	s.newNodesKnown = true
	return nil
}
