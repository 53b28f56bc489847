// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
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

	// FreezeSwitch is the ConfigMap that freezes the cluster. No name means that there is none.
	FreezeSwitch cluster.Key

	// VPAsOptional lets WaitSynced return although the API server has no VPAs, or podfit has no right to read them.
	VPAsOptional bool

	DryRun bool // WriteStatus sends nothing
	Boosts bool // the feature gate CPUStartupBoost: an autoscaler in mode Off with a startup boost governs pods
	Log    *slog.Logger
}

// A World stores the known state of the cluster. The watches write it; the loops and the webhook read single objects or
// snapshots. Objects that it returns are never changed afterwards.
//
// One mutex guards all fields but scales. It is held for look-ups and while pieces of pieceSize objects are copied, never during a request
// or a wait.
type World struct {
	clients *kube.Clients
	o       Options
	log     *slog.Logger
	in      *projection.Interner
	feeds   []*feed.Feed
	running sync.WaitGroup

	throttle kube.Throttle // of the writes of statuses

	mu          sync.Mutex
	pods        store[*cluster.Pod]
	autoscalers store[*autoscalerEntry]
	candidates  candidates
	limitItems  store[[]projection.LimitItem]
	limits      map[string]cluster.LimitRange
	quotas      store[cluster.Quota]
	quotaSets   map[string]*cluster.Quotas
	quotaFeed   *feed.Feed

	budgets    store[cluster.DisruptionBudget]
	budgetFeed *feed.Feed // nil if they are not watched
	urgent     urgent     // pods that an early pass may help
	requests   requestWatch

	profiles    store[profileRules] // what SizingProfiles require for changes of pods
	profileFeed *feed.Feed          // nil if they are not watched

	rules            store[cluster.ChangeRules] // of namespaces
	freezes          store[cluster.Freeze]      // at most one
	helds            store[heldSize]            // by UpdateState
	heldOf           map[cluster.Workload]rollout.State
	horizontal       store[*cluster.HorizontalAutoscaler]
	horizontalOf     map[cluster.Workload]map[cluster.Key]*cluster.HorizontalAutoscaler // those that depend on requests, by target
	horizontalSorted map[cluster.Workload][]*cluster.HorizontalAutoscaler               // cache of horizontals

	surging map[cluster.Key]struct{} // Deployments with the annotation podfit.dev/surge

	nodes       store[cluster.Node]
	newNodes    newNodes
	evictions   store[[]usage.OOM]
	owners      owners
	scales      *scale.Cache                 // kinds and scales of controllers that are not watched; it has a mutex of its own
	arrived     chan struct{}                // nil unless a review waits: closed when a watch delivers an owner
	waiting     waitSlots                    // reviews that wait for an owner
	targetKinds map[projection.GroupKind]int // number of autoscalers by kind of target

	generationPruned bool // the CRD has no field status.observedGeneration, according to the last status write
}

// NewWorld returns an empty world. It sends no request before Start.
func NewWorld(c *kube.Clients, o Options) *World {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &World{
		clients:    c,
		o:          o,
		log:        o.Log,
		in:         new(projection.Interner),
		candidates: newCandidates(o.Boosts),
		limits:     make(map[string]cluster.LimitRange),
		urgent:     newUrgent(),
		requests:   requestWatch{wanted: make(chan struct{}, 1)},
		quotaSets:  make(map[string]*cluster.Quotas),

		horizontalOf:     make(map[cluster.Workload]map[cluster.Key]*cluster.HorizontalAutoscaler),
		horizontalSorted: make(map[cluster.Workload][]*cluster.HorizontalAutoscaler),

		surging:     make(map[cluster.Key]struct{}),
		waiting:     newWaitSlots(),
		targetKinds: make(map[projection.GroupKind]int),
	}
	w.pods = store[*cluster.Pod]{mu: &w.mu, changed: w.podChanged}
	w.autoscalers = store[*autoscalerEntry]{mu: &w.mu, changed: w.autoscalerChanged}
	w.limitItems = store[[]projection.LimitItem]{mu: &w.mu, changed: w.forgetMergedLimits}
	w.budgets = store[cluster.DisruptionBudget]{mu: &w.mu}
	w.quotas = store[cluster.Quota]{mu: &w.mu, changed: w.forgetQuotaSet}
	w.profiles = store[profileRules]{mu: &w.mu}
	w.rules = store[cluster.ChangeRules]{mu: &w.mu}
	w.freezes = store[cluster.Freeze]{mu: &w.mu}
	w.helds = store[heldSize]{mu: &w.mu, changed: w.indexHeld}
	w.heldOf = make(map[cluster.Workload]rollout.State)
	w.horizontal = store[*cluster.HorizontalAutoscaler]{mu: &w.mu, changed: w.indexHorizontal}
	w.nodes = store[cluster.Node]{mu: &w.mu, changed: w.nodeChanged}
	w.newNodes.denied = map[string]bool{}
	w.evictions = store[[]usage.OOM]{mu: &w.mu}
	w.scales = scale.NewCache(c, o.Log)
	w.owners = owners{
		known:  make(map[projection.GroupKind]*store[projection.ControllerState]),
		other:  w.scales,
		synced: func(projection.GroupKind) bool { return false },
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
		w.running.Go(func() { w.watchRequests(ctx) })
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
				return fmt.Errorf("list %s: %w: %w", f.Name(), ctx.Err(), err)
			}
			return fmt.Errorf("list %s: %w", f.Name(), ctx.Err())
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
	out := make([]feed.State, 0, len(w.feeds))
	for _, f := range w.feeds {
		out = append(out, f.State())
	}
	return out
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

// Discovered reports whether discovery has been attempted once, with or without success.
func (w *World) Discovered() bool { return w.scales.Discovered() }

// ownerArrived wakes the reviews that wait for an owner. The mutex is held.
func (w *World) ownerArrived() {
	if w.arrived != nil {
		close(w.arrived)
		w.arrived = nil
	}
}
