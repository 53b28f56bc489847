// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// checkpoints is where history is stored.
type checkpoints interface {
	Load(ctx context.Context, each func(kube.CheckpointKey, usage.Checkpoint)) error
	Write(ctx context.Context, key kube.CheckpointKey, c usage.Checkpoint) error
	Collect(ctx context.Context, keep func(kube.CheckpointKey) bool) (int, error)
}

// The rhythm of checkpoints: what is lost should the process die is at most a twentieth of the history and at most
// ten minutes of it. What an OOM kill taught is stored in the pass that learns it.
const (
	longestUnsaved = 10 * time.Minute
	unsavedShare   = 20
)

// keeper stores history and reads it back. It belongs to the recommender's goroutine.
type keeper struct {
	config  RecommenderConfig
	book    *usage.Book
	store   checkpoints
	metrics *recommenderMetrics
	log     *slog.Logger

	waiting   map[kube.CheckpointKey]usage.Checkpoint // read, and not yet restored: their autoscaler is not served, or not known
	saved     map[usage.Ref]time.Time                 // when each was last stored
	gone      map[usage.Ref]bool                      // forgotten history, whose checkpoints are not needed any more
	collected time.Time
}

func newKeeper(c RecommenderConfig, b *usage.Book, store checkpoints, m *recommenderMetrics, log *slog.Logger) *keeper {
	return &keeper{
		config: c, book: b, store: store, metrics: m, log: log,
		waiting: map[kube.CheckpointKey]usage.Checkpoint{}, saved: map[usage.Ref]time.Time{}, gone: map[usage.Ref]bool{},
	}
}

// load reads what is stored. It tries until it succeeds or ctx ends: to go on without would overwrite what was learnt.
func (k *keeper) load(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		clear(k.waiting)
		err := k.store.Load(ctx, func(key kube.CheckpointKey, c usage.Checkpoint) { k.waiting[key] = c })
		if err == nil {
			k.log.Info("Read the stored usage history", "checkpoints", len(k.waiting))
			return nil
		}
		if ctx.Err() == nil {
			k.log.Warn("Cannot read the stored usage history; trying again before anything is recommended", "error", err, "in", wait.String())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// restore gives the book the stored history of autoscalers that are served. The one that governs a workload comes first:
// what others have stored of the same workload is the same history.
func (k *keeper) restore(ours []*cluster.Autoscaler) {
	if len(k.waiting) == 0 {
		return
	}
	targets := make(map[cluster.Key]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		targets[a.Key] = a
	}
	keys := slices.SortedFunc(maps.Keys(k.waiting), func(x, y kube.CheckpointKey) int {
		ax, ay := targets[x.Autoscaler], targets[y.Autoscaler]
		if ax != nil && ay != nil && ax.Key != ay.Key {
			if cluster.Elect([]*cluster.Autoscaler{ax, ay}) == ax {
				return -1
			}
			return 1
		}
		return cmp.Or(x.Autoscaler.Compare(y.Autoscaler), strings.Compare(x.Container, y.Container))
	})
	for _, key := range keys {
		a := targets[key.Autoscaler]
		if a == nil || a.Target.IsZero() {
			continue
		}
		c := k.waiting[key]
		delete(k.waiting, key)
		ref := usage.Ref{Workload: a.Target, Container: key.Container}
		if _, done := k.saved[ref]; done {
			continue
		}
		err := k.book.Restore(a.Target, key.Container, c)
		if err != nil {
			k.log.Warn("Cannot use a stored usage history; it stays as it is until new history is stored over it",
				"autoscaler", key.Autoscaler.String(), "container", key.Container, "error", err)
		}
		if err == nil || errors.Is(err, usage.ErrExtra) {
			k.saved[ref] = c.Updated
		}
	}
}

// save stores the history that has changed, the longest unsaved first, for as long as the budget of a pass lasts.
func (k *keeper) save(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(s *usage.Series, last time.Time) bool {
		if at, _ := s.LastOOM(); at.After(last) {
			return true
		}
		seen := s.Seen(cluster.CPU)
		if m := s.Seen(cluster.Memory); m.Count > seen.Count {
			seen = m
		}
		return now.Sub(last) >= min(seen.Last.Sub(seen.First)/unsavedShare, longestUnsaved)
	})
}

// flush stores everything that has changed, when the process ends.
func (k *keeper) flush(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(*usage.Series, time.Time) bool { return true })
}

func (k *keeper) write(ctx context.Context, now time.Time, ours []*cluster.Autoscaler, due func(*usage.Series, time.Time) bool) {
	if k.config.Storage == "prometheus" { // as upstream: history comes from there at every start
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.config.CheckpointsTimeout)
	defer cancel()
	owners := make(map[cluster.Workload][]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		owners[a.Target] = append(owners[a.Target], a)
	}
	var (
		g  errgroup.Group
		mu sync.Mutex // guards stored
	)
	stored := map[usage.Ref]usage.Checkpoint{}
	g.SetLimit(k.config.Workers)
	for _, ref := range k.book.Pending(now) {
		s := k.book.Series(ref.Workload, ref.Container)
		if s == nil || !due(s, k.saved[ref]) {
			continue
		}
		c, ok := k.book.Checkpoint(ref.Workload, ref.Container, now)
		if !ok || ctx.Err() != nil {
			continue
		}
		g.Go(func() error {
			if k.store1(ctx, ref, c, owners[ref.Workload]) {
				mu.Lock()
				stored[ref] = c
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // what went wrong was logged where it happened
	for ref, c := range stored {
		k.book.Saved(ref.Workload, ref.Container, c)
		k.saved[ref] = now
	}
}

// store1 writes one container's history for every autoscaler of ours that names its workload.
func (k *keeper) store1(ctx context.Context, ref usage.Ref, c usage.Checkpoint, owners []*cluster.Autoscaler) bool {
	wrote := false
	for _, a := range owners {
		if p := a.Policy(ref.Container); p != nil && p.Off {
			continue
		}
		err := k.store.Write(ctx, kube.CheckpointKey{Autoscaler: a.Key, Container: ref.Container}, c)
		switch {
		case err == nil:
			k.metrics.checkpoint.WithLabelValues("written").Inc()
			wrote = true
		case ctx.Err() != nil:
			k.metrics.checkpoint.WithLabelValues("postponed").Inc()
			return false
		default:
			k.metrics.checkpoint.WithLabelValues("failed").Inc()
			k.log.Warn("Cannot store usage history; the next pass tries again", "autoscaler", a.Key.String(), "container", ref.Container, "error", err)
			return false
		}
	}
	return wrote
}

// forget says that history was forgotten: what is stored of it is not needed any more.
func (k *keeper) forget(refs []usage.Ref) {
	for _, r := range refs {
		k.gone[r] = true
		delete(k.saved, r)
	}
}

// collect deletes the checkpoints of autoscalers that do not exist any more, of whatever recommender, and of containers
// whose history was forgotten.
func (k *keeper) collect(ctx context.Context, now time.Time, all []*cluster.Autoscaler) {
	if now.Sub(k.collected) < k.config.CheckpointsGC {
		return
	}
	k.collected = now
	targets := make(map[cluster.Key]*cluster.Autoscaler, len(all))
	for _, a := range all {
		targets[a.Key] = a
	}
	n, err := k.store.Collect(ctx, func(key kube.CheckpointKey) bool {
		a := targets[key.Autoscaler]
		if a == nil {
			return false
		}
		ref := usage.Ref{Workload: a.Target, Container: key.Container}
		return !k.gone[ref] || k.book.Series(a.Target, key.Container) != nil
	})
	if err != nil && ctx.Err() == nil {
		k.log.Warn("Cannot remove orphaned checkpoints", "error", err)
		return
	}
	if n > 0 {
		k.log.Info("Removed orphaned checkpoints", "number", n)
	}
	clear(k.gone)
	for key := range k.waiting {
		if targets[key.Autoscaler] == nil {
			delete(k.waiting, key)
		}
	}
}
