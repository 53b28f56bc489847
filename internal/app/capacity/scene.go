// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	report "podfit.dev/podfit/internal/edge/report/capacity"
)

type scene struct {
	now     time.Time
	world   capacity.World
	avoided map[string][]cluster.Selector
	missing []string // what could not be read
	notes   []string
	read    *watcher.World
}

func (c *Config) readScene(ctx context.Context, clients *kube.Clients) (*scene, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // for reading the state of the cluster
	defer cancel()
	s := new(scene)
	o := watcher.Options{Pods: watcher.AllPods, Nodes: true, NodeGroups: true, Budgets: c.Fragments, VPAsOptional: true, Log: slog.New(slog.DiscardHandler)}
	if c.Fragments {
		s.avoided = map[string][]cluster.Selector{}
		o.Avoided = s.avoided
	}
	s.read = watcher.NewWorld(clients, o)
	for _, u := range s.read.Load(ctx) {
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
	groups, _ := s.read.NewNodes()
	for _, u := range s.read.UnusedGroups() {
		s.notes = append(s.notes, fmt.Sprintf("How many nodes can be added may not be known, because %s cannot be used: %v.", u.Resource, u.Err))
	}
	s.world = capacity.World{
		Nodes: s.read.Nodes(), Groups: groups, Snapshot: s.read.Snapshot(), Selectors: s.read.Selectors(), Tolerations: s.read.Tolerations(), Used: readUsage(ctx, clients),
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

// addFragments adds to a report how the free room of pools is divided among their nodes. With alone, only pods of the node move that is freed or gets
// the room. With a node, plans are for that one only.
func (s *scene) addFragments(r *report.Report, pools []capacity.Pool, alone bool, node string) {
	pods := s.world.Snapshot.Pods
	if len(pods) == 0 {
		r.Notes = append(r.Notes, "--fragments needs pods, and the cluster runs none.")
		return
	}
	counter := &disruption.Counter{
		Now: s.now, Limits: &disruption.Limits{MinReplicas: process.DefaultMinReplicas, Tolerance: 0.5}, Need: &need.Rules{}, Ledger: ledger.New(),
		Scales: map[cluster.Workload]cluster.Scale{},
	}
	in := &fragments.Input{Nodes: s.world.Nodes, Pools: s.world.Rules.Assign(s.world.Nodes), For: r.For, Budgets: map[string][]cluster.DisruptionBudget{}, Avoided: s.avoided, Sizes: map[cluster.Key]room.Amount{}, Waiting: alone, Node: node}
	for _, p := range pods {
		in.Waiting = in.Waiting || p.Node == "" && p.Live()
		counter.Scales[p.Controller] = s.read.Scale(p.Controller)
		counter.Now = cluster.Latest(counter.Now, p.ReadySince) // the clock of this machine may be behind
		if in.Budgets[p.Namespace] == nil {
			in.Budgets[p.Namespace], _ = s.read.DisruptionBudgets(p.Namespace)
		}
		if a := cluster.Governing(s.world.Snapshot.AutoscalersOf(p.Workload()), true); a != nil {
			a = a.For(p)
			boosted := policy.AdmissibleBoost(a, policy.Limits{}, p, policy.Fit(a, policy.Limits{}, p), math.MaxInt64)
			in.Sizes[p.Key] = room.Of(change.Total(p, boosted.Fits))
		}
	}
	if _, known := s.read.DisruptionBudgets(""); !known {
		in.Budgets = nil
		r.Notes = append(r.Notes, "PodDisruptionBudgets could not be read: it is not known whether moves are permitted, nor whether nodes could be removed.")
	}
	in.Names = cluster.Each(pools, func(p *capacity.Pool) string { return p.Name })
	in.Rooms = placement.RoomsOf(in.Nodes, pods, placement.SizesOf(in.Nodes, s.world.Selectors, s.world.Tolerations, nil))
	in.Rooms.TakeForNew(s.now, pods)
	in.Groups = counter.Groups(&cluster.Autoscaler{}, pods)
	r.Fragments = fragments.Measure(in)
}
