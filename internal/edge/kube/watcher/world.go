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
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A PodScope says which pods are watched.
type PodScope uint8

// The scopes.
const (
	NoPods   PodScope = iota
	LivePods          // pending and running ones
	AllPods           // and those that have ended, which still tell how
)

// Options says what of a cluster is watched. Autoscalers and controllers always are.
type Options struct {
	Namespace string   // only this namespace; "" means all
	Ignored   []string // none of these namespaces; "" among them is ignored
	Pods      PodScope
	Nodes     bool
	Limits    bool // limit ranges
	Quotas    bool // resource quotas
	Evictions bool // the kubelet's events about evicted pods
	DryRun    bool // statuses are not sent
	Boosts    bool // the feature gate CPUStartupBoost is on: an autoscaler in mode Off with a startup boost governs pods
	Log       *slog.Logger
}

// A World holds what is known of the cluster. Watches write it, the loops and the webhook read it: a look-up, or a
// snapshot. What it hands out is never changed afterwards.
//
// One mutex guards everything in it. It is held for look-ups and for pieces of copies (pieceSize), never while something is
// sent or waited for.
type World struct {
	clients *kube.Clients
	o       Options
	log     *slog.Logger
	in      *projection.Interner
	feeds   []*feed
	running sync.WaitGroup

	mu          sync.Mutex
	pods        store[*cluster.Pod]
	autoscalers store[*autoscalerEntry]
	candidates  candidates
	limitItems  store[[]projection.LimitItem]
	limits      map[string]cluster.LimitRange
	quotas      store[cluster.Quota]
	quotaSets   map[string]*cluster.Quotas
	quotaFeed   *feed
	nodes       store[cluster.Node]
	evictions   store[[]usage.OOM]
	owners      owners
	arrived     chan struct{}                // if somebody waits: closed when an owner becomes known
	waiting     waitSlots                    // of reviews that wait for an owner
	targetKinds map[projection.GroupKind]int // how many autoscalers have a target of the kind

	generationPruned bool // the CRD is one without status.observedGeneration, as of the last status that was written
}

// NewWorld returns a world that knows nothing yet. It sends no request before Start.
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
		quotaSets:  make(map[string]*cluster.Quotas),

		waiting:     newWaitSlots(),
		targetKinds: make(map[projection.GroupKind]int),
	}
	w.pods = store[*cluster.Pod]{mu: &w.mu, changed: keepTop}
	w.autoscalers = store[*autoscalerEntry]{mu: &w.mu, changed: w.autoscalerChanged}
	w.limitItems = store[[]projection.LimitItem]{mu: &w.mu, changed: w.forgetMergedLimits}
	w.quotas = store[cluster.Quota]{mu: &w.mu, changed: w.forgetQuotaSet}
	w.nodes = store[cluster.Node]{mu: &w.mu}
	w.evictions = store[[]usage.OOM]{mu: &w.mu}
	w.owners = owners{
		known:  make(map[projection.GroupKind]*store[projection.ControllerState]),
		kinds:  newKinds(&w.mu, o.Log),
		scale:  newScales(&w.mu, o.Log),
		synced: func(projection.GroupKind) bool { return false },
	}
	w.addFeeds()
	return w
}

// Start begins to watch, and goes on until ctx ends.
func (w *World) Start(ctx context.Context) {
	for _, f := range w.feeds {
		w.running.Go(func() { f.run(ctx) })
	}
	if w.o.Pods != NoPods {
		w.running.Go(func() { w.forgetSelectors(ctx) })
	}
	w.running.Go(func() {
		w.owners.scale.run(ctx, w.owners.kinds.find, scaleReaderFor(w.clients.Core.CoreV1().RESTClient()), w.ownerArrived)
	})
	d := w.clients.Core.Discovery().(discoverer) // as every client of client-go is; modules with an older one compile this too
	w.running.Go(func() {
		w.owners.kinds.run(ctx, d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ownerArrived()
		})
	})
}

// Wait returns when every goroutine that Start began has ended.
func (w *World) Wait() { w.running.Wait() }

// WaitSynced returns when everything has been listed once, but for what may not be read and is not needed. When ctx ends
// before, the error says what is missing.
func (w *World) WaitSynced(ctx context.Context) error {
	for _, f := range w.feeds {
		select {
		case <-f.ready:
		case <-ctx.Done():
			if err := f.state().Err; err != nil {
				return fmt.Errorf("list %s: %w: %w", f.name, ctx.Err(), err)
			}
			return fmt.Errorf("list %s: %w", f.name, ctx.Err())
		}
	}
	return nil
}

// A FeedState says how one watch is doing.
type FeedState struct {
	Resource string
	Synced   bool      // it has been listed once
	Without  bool      // it may not be read, and podfit goes on
	Heard    time.Time // when the API server last answered
	Err      error     // why it does not now, nil when it does
	Failed   time.Time // since when

	watched bool      // a watch is open
	since   time.Time // when the last watch ended, or the last list if that was later; of one that is not open
	regular bool      // the API server sends bookmarks on this watch
	passive bool      // no decision about a pod has to wait until it is up to date
}

// How long a resource may be silent before what is known of it counts as out of date.
const (
	unwatchedFor = 2 * time.Minute  // no watch is open: the API server is away, or does not answer
	overdueFor   = 3 * time.Minute  // a watch is open, and its bookmarks, which come every minute, have stopped
	silentFor    = 11 * time.Minute // a watch without bookmarks is open: the client renews each after ten minutes at most
)

// IsStale reports whether the resource is not known to be up to date. A watch on which nothing happens is, for as long as
// a sign of life is not overdue; one that fails now and again is, for as long as it comes back soon.
func (s *FeedState) IsStale(now time.Time) bool {
	switch {
	case s.Without:
		return false
	case !s.Synced:
		return true
	case !s.watched:
		return now.Sub(s.since) > unwatchedFor
	case s.regular:
		return now.Sub(s.Heard) > overdueFor
	}
	return now.Sub(s.Heard) > silentFor
}

func (f *feed) state() FeedState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return FeedState{
		Resource: f.name, Synced: f.synced, Without: f.without, Heard: f.heard, Err: f.err, Failed: f.failed,
		watched: f.watches > 0, since: f.since, regular: f.bookmarks > 1, passive: f.passive,
	}
}

// Stale returns the resources that are not known to be up to date and that decisions about pods depend on.
func (w *World) Stale(now time.Time) []string {
	var out []string
	for _, s := range w.Health() {
		if !s.passive && s.IsStale(now) {
			out = append(out, s.Resource)
		}
	}
	return out
}

// Health says how each watch is doing.
func (w *World) Health() []FeedState {
	out := make([]FeedState, 0, len(w.feeds))
	for _, f := range w.feeds {
		out = append(out, f.state())
	}
	return out
}

// Synced reports whether everything has been listed once, but for what may not be read and is not needed.
func (w *World) Synced() bool {
	for _, f := range w.feeds {
		select {
		case <-f.ready:
		default:
			return false
		}
	}
	return true
}

// Discovered reports whether the API server has been asked which kinds it serves, with or without success.
func (w *World) Discovered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners.kinds.tried
}

// ownerArrived wakes those who wait for an owner. The mutex is held.
func (w *World) ownerArrived() {
	if w.arrived != nil {
		close(w.arrived)
		w.arrived = nil
	}
}
