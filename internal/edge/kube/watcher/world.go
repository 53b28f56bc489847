// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package watcher watches the API server and stores what podfit needs to know about the cluster.
//
// It watches pods, autoscalers, controllers, limit ranges, resource quotas, nodes and eviction events (one feed.Feed for each), and stores
// their projections (package projection). One World contains all of them behind one mutex, because owners, rules and snapshots combine
// several kinds of objects: that is one topic, so the package is not split further. The kinds that the API server serves, and the scales of
// controllers that are not watched, are in a scale.Cache. Errors of the API server never remove stored state. The package also writes the
// status of autoscalers, because the response to a write replaces the stored object before the watch delivers it.
//
// It makes no decisions.
package watcher

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/scale"
)

// A PodScope selects the pods that are watched.
type PodScope uint8

// The scopes.
const (
	NoPods   PodScope = iota
	LivePods          // pending and running pods
	AllPods           // also terminated pods, whose status contains the cause of their end
)

// Options selects what is watched. Autoscalers and controllers are always watched.
type Options struct {
	Namespace string   // only this namespace; "" means all
	Ignored   []string // namespaces that are not watched; an empty name has no effect
	Pods      PodScope
	Nodes     bool
	Limits    bool // limit ranges
	Quotas    bool // resource quotas
	Budgets   bool // PodDisruptionBudgets
	Profiles  bool // the names of SizingProfiles, and their canaries
	HPAs      bool // HorizontalPodAutoscalers
	Evictions bool // events of the kubelet about evicted pods
	Rules     bool // annotations of namespaces, and FreezeSwitch
	Held      bool // sizes that were reverted, in UpdateStates

	Avoided    map[string][]cluster.Selector // see projection.Interner
	NodeGroups bool                          // with Nodes: what the cluster autoscaler reports of its groups
	Writing

	// FreezeSwitch is the ConfigMap that freezes the cluster. No name means that there is none.
	FreezeSwitch cluster.Key

	// VPAsOptional lets WaitSynced return although the API server has no VPAs, or podfit has no right to read them.
	VPAsOptional bool

	Fixed cluster.Fixed // not sized

	Boosts bool // the feature gate CPUStartupBoost: an autoscaler in mode Off with a startup boost governs pods
	Log    *slog.Logger
}

// Writing is how the status of autoscalers is written.
type Writing struct {
	DryRun bool // WriteStatus sends nothing
	Plain  bool // it gets no condition that upstream does not set
}

// A World stores the known state of the cluster. The watches write it; the loops and the webhook read single objects or
// snapshots. Objects that it returns are never changed afterwards.
type World struct {
	*base
	running sync.WaitGroup

	podSet
	autoscalerSet
	profileSet
	horizontalSet
	nodeSet
	constraints
	changeRules
	ownership
}

// A base is what all parts of a World share.
//
// One mutex guards all parts, because owners, scales, rules and snapshots combine several of them. It is held for look-ups and while pieces of
// pieceSize objects are copied, never during a request or a wait.
type base struct {
	clients *kube.Clients
	o       Options
	log     *slog.Logger
	in      *projection.Interner
	feeds   []*feed.Feed

	mu     sync.Mutex
	urgent urgent // pods that an early pass may help
}

// NewWorld returns an empty world. It sends no request before Start.
func NewWorld(c *kube.Clients, o Options) *World {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	b := &base{
		clients: c, o: o, log: o.Log, in: &projection.Interner{Avoided: o.Avoided},
		urgent: urgent{crashing: map[string]int{}, signal: make(chan struct{}, 1)},
	}
	mu := &b.mu
	w := &World{base: b}
	w.podSet = podSet{base: b, pods: store[*cluster.Pod]{mu: mu, changed: w.podChanged}, evictions: store[[]usage.OOM]{mu: mu}}
	w.autoscalerSet = autoscalerSet{
		base: b, autoscalers: store[*autoscalerEntry]{mu: mu, changed: w.autoscalerChanged}, targetKinds: map[projection.GroupKind]int{},
		candidates: index[cluster.Autoscaler]{target: func(a *cluster.Autoscaler) cluster.Workload { return a.Target }, compare: (*cluster.Autoscaler).CompareAge},
	}
	w.profileSet = profileSet{base: b, profiles: store[projection.Profile]{mu: mu}}
	w.horizontalSet = horizontalSet{
		base: b, horizontal: store[*cluster.HorizontalAutoscaler]{mu: mu, changed: w.indexHorizontal},
		horizontalOf: index[cluster.HorizontalAutoscaler]{target: func(h *cluster.HorizontalAutoscaler) cluster.Workload { return h.Target }, compare: compareHorizontals},
	}
	w.nodeSet = nodeSet{base: b, nodes: store[cluster.Node]{mu: mu, changed: w.nodeChanged}}
	w.constraints = constraints{
		base: b, limitItems: store[[]projection.LimitItem]{mu: mu, changed: w.limitsChanged}, quotas: store[cluster.Quota]{mu: mu, changed: w.quotasChanged},
		budgets: store[cluster.DisruptionBudget]{mu: mu},
	}
	w.changeRules = changeRules{
		base: b, rules: store[cluster.ChangeRules]{mu: mu}, freezes: store[cluster.Freeze]{mu: mu}, helds: store[heldSize]{mu: mu, changed: w.indexHeld},
	}
	w.ownership = ownership{base: b, scales: scale.NewCache(b.clients, b.log), controllerFeeds: map[projection.GroupKind]*feed.Feed{}}
	w.owners = owners{
		known: map[projection.GroupKind]*store[projection.ControllerState]{}, other: w.scales,
		synced: func(kind projection.GroupKind) bool { return w.controllerFeeds[kind].State().Synced },
	}
	w.addFeeds()
	return w
}

// Start watches until ctx ends.
func (w *World) Start(ctx context.Context) {
	for _, f := range w.feeds {
		w.running.Go(func() { f.Run(ctx) })
	}
	if w.o.Pods != NoPods {
		w.running.Go(func() { w.forgetSelectors(ctx) })
	}
	if w.o.Nodes {
		w.running.Go(func() { w.readNewNodes(ctx) })
	}
	w.running.Go(func() { w.scales.Run(ctx) })
}

// Wait returns when all goroutines of Start have ended.
func (w *World) Wait() { w.running.Wait() }

// WaitSynced returns when all resources are listed once, except optional ones that podfit has no right to read. If ctx ends
// first, the error names the resource that is missing.
func (w *World) WaitSynced(ctx context.Context) error {
	for _, f := range w.feeds {
		select {
		case <-f.Ready():
		case <-ctx.Done():
			if err := f.State().Err; err != nil {
				return fmt.Errorf("list %s: %w: %w", f.Name, ctx.Err(), err)
			}
			return fmt.Errorf("list %s: %w", f.Name, ctx.Err())
		}
	}
	return nil
}

// Stale returns the resources whose stored state may be out of date and that decisions about pods depend on.
func (w *World) Stale(now time.Time) []string {
	var out []string
	for _, s := range w.Health() {
		if !s.NonBlocking && s.IsStale(now) {
			out = append(out, s.Resource)
		}
	}
	return out
}

// Health returns the health of all watches.
func (w *World) Health() []feed.State {
	return cluster.Each(w.feeds, func(f **feed.Feed) feed.State { return (*f).State() })
}

// Synced reports whether all resources are listed once, except optional ones that podfit has no right to read.
func (w *World) Synced() bool {
	for _, f := range w.feeds {
		select {
		case <-f.Ready():
		default:
			return false
		}
	}
	return true
}
