// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	newNodesRefresh = 5 * time.Minute  // interval of reading the objects that describe nodes that can be added
	newNodesRetry   = 10 * time.Second // after a failed read
	newNodesTimeout = time.Minute      // of reading the objects of a kind
	maxNewNodes     = 1000             // objects of a kind that are read

	autoscalerStatus = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
)

// A nodeSet has the nodes of the cluster, and those that an autoscaler of the cluster can add.
type nodeSet struct {
	*base
	nodes         store[cluster.Node]
	sizes         map[string]string // the size class of each node; nil if it has to be built again
	newNodes      []cluster.NewNode
	newNodesKnown bool     // they were read once
	unused        []Unread // what cannot be used of the objects that describe them; logged once
}

// nodeChanged signals if a node can take pods now that it could not take before. The mutex is held.
func (s *nodeSet) nodeChanged(_ cluster.Key, before, now *cluster.Node) {
	if before == nil || now == nil || before.Allocatable != now.Allocatable {
		s.sizes = nil
	}
	tookThem := now == nil || before != nil && before.TakesPods() && now.Allocatable.CPU <= before.Allocatable.CPU && now.Allocatable.Memory <= before.Allocatable.Memory
	if s.urgent.waits.LargerNode && !tookThem && now.TakesPods() {
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

// NewNodes returns the nodes that Karpenter (NodePool) or the cluster autoscaler (MachineDeployment of the Cluster API, and with
// Options.NodeGroups its status) can add. It returns false while they are unknown. Without these objects, or without the right to read them,
// there are none.
func (s *nodeSet) NewNodes() (all []cluster.NewNode, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newNodes, s.newNodesKnown
}

// UnusedGroups returns the objects that describe groups of nodes and cannot be used, by their path.
func (s *nodeSet) UnusedGroups() []Unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unused)
}

// readNewNodes reads the nodes that can be added again and again until ctx ends.
func (s *nodeSet) readNewNodes(ctx context.Context) {
	for {
		wait := newNodesRefresh
		if err := s.loadNewNodes(ctx); err != nil {
			wait = newNodesRetry
			if ctx.Err() == nil {
				s.log.Warn("Cannot read which nodes can be added; the last known ones are kept", slog.Any("error", err))
			}
		}
		if !kube.Sleep(ctx, wait) {
			return
		}
	}
}

// read returns an object or a list in JSON; an empty one if the cluster does not have it, or podfit may not read it.
func (s *nodeSet) read(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, newNodesTimeout)
	defer cancel()
	result := s.clients.Core.CoreV1().RESTClient().Get().AbsPath(path).
		Param("limit", strconv.Itoa(maxNewNodes)).SetHeader("Accept", "application/json").Do(ctx)
	raw, _ := result.Raw() // its error lacks the message of the API server
	err := result.Error()
	switch {
	case apierrors.IsNotFound(err):
		return []byte("{}"), nil
	case apierrors.IsForbidden(err):
		s.doWithout(path, err)
		return []byte("{}"), nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return raw, nil
}

// readAutoscalerStatus returns the status of the cluster autoscaler, as read does. Without the right to it, which is not among those of upstream, it sends
// no request. A client that only reads, as in a dry run, asks for no right: then the API server decides.
func (s *nodeSet) readAutoscalerStatus(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, newNodesTimeout)
	defer cancel()
	has, err := s.clients.Has(ctx, kube.Right{Verb: "get", Resource: "configmaps", Namespace: "kube-system", Name: "cluster-autoscaler-status"})
	if err == nil && !has {
		return nil, errors.New("no permission to get this ConfigMap")
	}
	return s.read(ctx, autoscalerStatus)
}

// doWithout logs, once, why an object or a list is not used.
func (s *nodeSet) doWithout(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.unused, func(u Unread) bool { return u.Resource == path }) {
		return
	}
	s.unused = append(s.unused, Unread{Resource: path, Err: err})
	s.log.Info("Cannot read an optional resource; podfit runs without it", slog.String("resource", path),
		slog.String("impact", "podfit does not know which nodes can be added, or how many"), slog.String("remedy",
			"if a right is missing: grant it, as deploy/10-rbac.yaml and deploy/rights/node-groups do, or set --max-node-cpu and --max-node-memory"), slog.Any("error", err))
}

// loadNewNodes reads the nodes that can be added. Without the right to read them, there are none. What the cluster autoscaler reports of a group counts
// more than the group itself.
func (s *nodeSet) loadNewNodes(ctx context.Context) error {
	pools, poolsErr := s.read(ctx, "/apis/karpenter.sh/v1/nodepools")
	deployments, deploymentsErr := s.read(ctx, "/apis/cluster.x-k8s.io/v1beta1/machinedeployments")
	status := []byte("{}")
	if s.o.NodeGroups {
		if read, err := s.readAutoscalerStatus(ctx); err == nil {
			status = read
		} else {
			s.doWithout(autoscalerStatus, err) // it only adds to what the groups say
		}
	}
	if err := cmp.Or(poolsErr, deploymentsErr); err != nil {
		return err
	}
	all, err := projection.NodePools(pools)
	more, moreErr := projection.MachineDeployments(deployments)
	if err := cmp.Or(err, moreErr); err != nil {
		return err
	}
	groups, err := projection.AutoscalerStatus(time.Now(), status)
	if err != nil {
		s.doWithout(autoscalerStatus, err)
	}
	all = append(all, more...)
	for i := range groups {
		at := slices.IndexFunc(all, func(n cluster.NewNode) bool { return n.Name == groups[i].Name })
		if at < 0 {
			all = append(all, groups[i])
		} else {
			all[at].NodeGroup = groups[i].NodeGroup
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newNodes = all
	s.newNodesKnown = true
	return nil
}

// FleetOptions are the settings of users about the nodes of the cluster.
type FleetOptions struct {
	Scale bool // scale pods down that fit on no node

	// Allocatable amounts of the largest node that can be added, in millicores and bytes. One that is 0 is not bounded; if both are 0,
	// such nodes are not known.
	MaxCPU, MaxMemory int64
}

// Nodes has the nodes of the cluster. A World is one.
type Nodes interface {
	Nodes() []cluster.Node
	Daemons() []cluster.Daemon
	Selectors() []cluster.NodeSelector  // of pods
	Tolerations() []cluster.Tolerations // of pods
	NewNodes() (all []cluster.NewNode, known bool)
}

// Fleet returns the sizes of the nodes of the cluster and of those that can be added. While the latter are unknown, pods are not scaled.
func Fleet(w Nodes, o FleetOptions) *fleet.Fleet {
	added, known := w.NewNodes()
	c := fleet.Config{
		Nodes: w.Nodes(), Daemons: w.Daemons(), Selectors: w.Selectors(), Tolerations: w.Tolerations(), Unscaled: !o.Scale || !known,
		New: slices.Clone(added),
	}
	var largest cluster.Resources
	if o.MaxCPU > 0 {
		largest = largest.Set(cluster.CPU, o.MaxCPU)
	}
	if o.MaxMemory > 0 {
		largest = largest.Set(cluster.Memory, o.MaxMemory)
	}
	if !largest.Has.Empty() {
		c.New = append(c.New, cluster.NewNode{Size: largest})
	}
	return fleet.New(c)
}
