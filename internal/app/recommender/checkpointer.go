// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// checkpoints is where the histograms are stored, for each autoscaler and container.
type checkpoints interface {
	Load(ctx context.Context, each func(checkpoint.CheckpointKey, usage.Checkpoint)) error
	Write(ctx context.Context, key checkpoint.CheckpointKey, c usage.Checkpoint) error
	Collect(ctx context.Context, keep func(checkpoint.CheckpointKey) bool) (int, error)
}

// histories is where that is stored which profiles remember besides, for each workload. Write does nothing when nothing
// has changed.
type histories interface {
	Load(ctx context.Context, each func(cluster.Workload, []usage.History)) error
	Write(ctx context.Context, w cluster.Workload, hs []usage.History) (bool, error)
	Collect(ctx context.Context, keep func(cluster.Workload) bool) (int, error)
}

// storage is where what was learnt is kept.
type storage struct {
	checkpoints checkpoints
	histories   histories
}

// The rhythm of storing: what is lost should the process die is at most a twentieth of the history and at most
// ten minutes of it. What an OOM kill taught is stored in the pass that learns it. The ten minutes of each workload begin
// at a time of its own, so that the writes of many are spread.
const (
	longestUnsaved = 10 * time.Minute
	unsavedShare   = 20
)

// keeper stores history and reads it back. It belongs to the recommender's goroutine.
type checkpointer struct {
	config     Config
	usageStore *usage.Store
	store      storage
	metrics    *Metrics
	health     *process.Health // is told of progress: storing and collecting can take longer than a loop may be silent
	log        *slog.Logger

	waiting    map[checkpoint.CheckpointKey]usage.Checkpoint // read, and not yet restored: their autoscaler is not served, or not known
	remembered map[cluster.Workload][]usage.History          // likewise, or no profile asks for it
	saved      map[usage.Ref]time.Time                       // when each was last stored
	gone       map[usage.Ref]bool                            // forgotten history, whose checkpoints are not needed any more
	storedOf   map[cluster.Key]cluster.Workload              // whose history the newest checkpoint of each autoscaler was, as read; where that is known
	collected  time.Time

	mu   sync.Mutex                // guards next
	next map[usage.Ref]cluster.Key // at which autoscaler to continue where the time was over before all had the history
}

func newCheckpointer(c Config, b *usage.Store, store storage, m *Metrics, h *process.Health, log *slog.Logger) *checkpointer {
	return &checkpointer{
		config: c, usageStore: b, store: store, metrics: m, health: h, log: log,
		waiting: map[checkpoint.CheckpointKey]usage.Checkpoint{}, remembered: map[cluster.Workload][]usage.History{},
		saved: map[usage.Ref]time.Time{}, gone: map[usage.Ref]bool{}, storedOf: map[cluster.Key]cluster.Workload{},
		next: map[usage.Ref]cluster.Key{},
	}
}

// load reads what is stored. It tries until it succeeds or ctx ends: to go on without would overwrite what was learnt.
func (k *checkpointer) load(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		clear(k.waiting)
		clear(k.remembered)
		err := errors.Join(
			k.store.checkpoints.Load(ctx, func(key checkpoint.CheckpointKey, c usage.Checkpoint) { k.waiting[key] = c }),
			k.store.histories.Load(ctx, func(w cluster.Workload, hs []usage.History) { k.remembered[w] = hs }),
		)
		if err == nil {
			k.learnTargets()
			k.log.Info("Read the stored usage history", slog.Int("checkpoints", len(k.waiting)), slog.Int("histories", len(k.remembered)))
			return nil
		}
		if ctx.Err() == nil {
			k.log.Warn("Cannot read the stored usage history; trying again before anything is recommended", slog.Any("error", err), slog.String("retryAfter", wait.String()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// learnTargets notes whose history the checkpoints of each autoscaler hold.
func (k *checkpointer) learnTargets() {
	clear(k.storedOf)
	newest := map[cluster.Key]time.Time{}
	for key, c := range k.waiting {
		if at, ok := newest[key.Autoscaler]; !c.Workload.IsZero() && (!ok || c.Updated.After(at)) {
			newest[key.Autoscaler], k.storedOf[key.Autoscaler] = c.Updated, c.Workload
		}
	}
}

// restore gives the book the stored history of autoscalers that are served. The one that governs a workload comes first:
// what others have stored of the same workload is the same history.
func (k *checkpointer) restore(now time.Time, ours []*cluster.Autoscaler) {
	k.restoreCheckpoints(now, ours)
	if len(k.remembered) == 0 {
		return
	}
	for _, a := range ours { // what had no checkpoint
		if !k.usageStore.Extended(a.Target) {
			continue
		}
		for _, h := range k.remembered[a.Target] {
			if err := k.usageStore.Recall(a.Target, h); err != nil {
				k.log.Warn("Cannot use a stored usage history; it stays as it is until new history is stored over it",
					slog.String("vpa", a.Key.String()), slog.String("container", h.Container), slog.Any("error", err))
			}
		}
		delete(k.remembered, a.Target)
	}
}

func (k *checkpointer) restoreCheckpoints(now time.Time, ours []*cluster.Autoscaler) {
	if len(k.waiting) == 0 {
		return
	}
	targets := make(map[cluster.Key]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		targets[a.Key] = a
	}
	for _, key := range k.restorable(targets) {
		a := targets[key.Autoscaler]
		c := k.waiting[key]
		if !c.Workload.IsZero() && c.Workload != a.Target {
			continue // the autoscaler named another workload when it was written, and may name it again
		}
		delete(k.waiting, key)
		ref := usage.Ref{Workload: a.Target, Container: key.Container}
		if _, done := k.saved[ref]; done {
			continue
		}
		c.History = k.recollect(ref)
		err := k.usageStore.Restore(a.Target, key.Container, c)
		if err != nil {
			k.log.Warn("Cannot use a stored usage history; it stays as it is until new history is stored over it",
				slog.String("vpa", key.Autoscaler.String()), slog.String("container", key.Container), slog.Any("error", err))
		}
		if err == nil || errors.Is(err, usage.ErrExtra) || errors.Is(err, usage.ErrHistory) {
			k.saved[ref] = c.Updated
			if c.Updated.After(now) { // written while the clock was ahead; it must not keep the next write waiting
				k.saved[ref] = now
			}
		} else if len(c.History.Data) > 0 {
			k.remembered[ref.Workload] = append(k.remembered[ref.Workload], c.History) // it stands by itself
		}
	}
}

// restorable returns the keys of the waiting checkpoints whose autoscalers are served and name a target: the oldest autoscaler first, as
// its checkpoint is the one that is used where several autoscalers have stored the same history.
func (k *checkpointer) restorable(served map[cluster.Key]*cluster.Autoscaler) []checkpoint.CheckpointKey {
	var keys []checkpoint.CheckpointKey
	for key := range k.waiting {
		if a := served[key.Autoscaler]; a != nil && !a.Target.IsZero() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y checkpoint.CheckpointKey) int {
		older, younger := served[x.Autoscaler], served[y.Autoscaler]
		return cmp.Or(older.Created.Compare(younger.Created), x.Autoscaler.Compare(y.Autoscaler), strings.Compare(x.Container, y.Container))
	})
	return keys
}

// recollect takes what is remembered of a container out of what was read, if a profile asks for it.
func (k *checkpointer) recollect(ref usage.Ref) usage.History {
	hs := k.remembered[ref.Workload]
	i := slices.IndexFunc(hs, func(h usage.History) bool { return h.Container == ref.Container })
	if i < 0 || !k.usageStore.Extended(ref.Workload) {
		return usage.History{}
	}
	h := hs[i]
	k.remembered[ref.Workload] = slices.Delete(hs, i, i+1)
	return h
}

// save stores the history that has changed, the longest unsaved first, for as long as the budget of a pass lasts.
func (k *checkpointer) save(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(s *usage.ContainerHistory, last time.Time) bool {
		if at, _ := s.LastOOM(); at.After(last) {
			return true
		}
		seen := s.Seen(cluster.CPU)
		if m := s.Seen(cluster.Memory); m.Count > seen.Count {
			seen = m
		}
		if share := seen.Last.Sub(seen.First) / unsavedShare; share < longestUnsaved {
			return now.Sub(last) >= share
		}
		w := s.Workload()
		return turn(w, now) != turn(w, last) // earlier when the clock was set back
	})
}

// turn numbers the ten minutes of a workload.
func turn(w cluster.Workload, at time.Time) int64 {
	phase := fnv.New32a()
	_, _ = phase.Write([]byte(w.String()))
	return (at.Unix() + int64(phase.Sum32())%int64(longestUnsaved/time.Second)) / int64(longestUnsaved/time.Second)
}

// flush stores everything that has changed, when the process ends.
func (k *checkpointer) flush(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(*usage.ContainerHistory, time.Time) bool { return true })
}

func (k *checkpointer) write(ctx context.Context, now time.Time, ours []*cluster.Autoscaler, due func(*usage.ContainerHistory, time.Time) bool) {
	if k.config.Storage == "prometheus" || k.config.ReadOnly { // as upstream: from there history comes at every start
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.config.CheckpointsTimeout)
	defer cancel()
	owners := make(map[cluster.Workload][]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		if !a.FetchingHistory {
			owners[a.Target] = append(owners[a.Target], a)
		}
	}
	var (
		g  errgroup.Group
		mu sync.Mutex // guards stored
	)
	stored := map[usage.Ref]usage.Checkpoint{}
	g.SetLimit(k.config.Workers)
	for _, refs := range byWorkload(k.usageStore.Pending(now)) {
		w := refs[0].Workload
		refs = slices.DeleteFunc(refs, func(r usage.Ref) bool {
			return !wanted(r.Container, owners[w]) || !due(k.usageStore.Series(w, r.Container), k.saved[r])
		})
		if len(refs) == 0 || ctx.Err() != nil {
			continue
		}
		process.Attempt(k.log, k.health, w.String(), func() {
			hs := k.usageStore.Histories(w, now)
			cs := make([]usage.Checkpoint, 0, len(refs))
			refs = slices.DeleteFunc(refs, func(r usage.Ref) bool {
				c, ok := k.usageStore.Checkpoint(w, r.Container, now)
				if ok {
					cs = append(cs, c)
				}
				return !ok
			})
			g.Go(func() error {
				process.Attempt(k.log, k.health, w.String(), func() {
					k.storeWorkload(ctx, hs, refs, cs, owners[w], func(i int) {
						mu.Lock()
						defer mu.Unlock()
						stored[refs[i]] = cs[i]
					})
				})
				return nil
			})
		})
	}
	_ = g.Wait() // what went wrong was logged where it happened
	for ref, c := range stored {
		k.usageStore.Saved(ref.Workload, ref.Container, c)
		k.saved[ref] = now
		for _, a := range owners[ref.Workload] {
			delete(k.waiting, checkpoint.CheckpointKey{Autoscaler: a.Key, Container: ref.Container}) // it has been stored over
		}
	}
}

// storeWorkload stores what is known of containers of a workload, and calls stored with the number of each that was.
func (k *checkpointer) storeWorkload(ctx context.Context, hs []usage.History, refs []usage.Ref, cs []usage.Checkpoint, owners []*cluster.Autoscaler, stored func(int)) {
	defer func() { k.health.Active(time.Now()) }()
	if len(refs) == 0 {
		return
	}
	apart := k.storeHistories(ctx, refs[0].Workload, hs)
	for i, ref := range refs {
		c := cs[i]
		if c.History = (usage.History{}); !apart {
			c = cs[i].Carry()
		}
		if k.store1(ctx, ref, c, owners) {
			stored(i)
		}
	}
}

// byWorkload puts the containers of a workload together. Workloads stand in the order of their first.
func byWorkload(refs []usage.Ref) [][]usage.Ref {
	at := map[cluster.Workload]int{}
	var out [][]usage.Ref
	for _, r := range refs {
		i, ok := at[r.Workload]
		if !ok {
			i = len(out)
			at[r.Workload] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// storeHistories stores what the profile of a workload remembers, if that has changed, and returns whether it is stored. It
// comes before the checkpoints: an OOM kill that these know of is one that the profile has been told of. What cannot be
// stored by itself, the checkpoints carry.
func (k *checkpointer) storeHistories(ctx context.Context, w cluster.Workload, hs []usage.History) bool {
	if len(hs) == 0 {
		return true
	}
	wrote, err := k.store.histories.Write(ctx, w, hs)
	switch {
	case err == nil:
		if wrote {
			k.metrics.history.WithLabelValues("written").Inc()
		}
		return true
	case ctx.Err() != nil:
		k.metrics.history.WithLabelValues("postponed").Inc()
	case errors.Is(err, kube.ErrUnsupported): // said where it was found out, once
		k.metrics.history.WithLabelValues("carried").Inc()
	default:
		k.metrics.history.WithLabelValues("failed").Inc()
		k.log.Warn("Cannot store what a profile remembers; the checkpoints carry it until that succeeds", slog.String("workload", w.String()), slog.Any("error", err))
	}
	return false
}

// wanted reports whether any of the autoscalers sizes a container. One that none does has no checkpoint: it is never stored,
// and so must not make what the workload's profile remembers due.
func wanted(container string, owners []*cluster.Autoscaler) bool {
	return slices.ContainsFunc(owners, func(a *cluster.Autoscaler) bool {
		p := a.Policy(container)
		return p == nil || !p.Off
	})
}

// store1 writes one container's history for every autoscaler of ours that names its workload, and returns whether any has it
// and all were tried. One that cannot be written does not keep it from the others. Where the time is over, the next pass
// continues with the autoscaler that was not reached.
func (k *checkpointer) store1(ctx context.Context, ref usage.Ref, c usage.Checkpoint, owners []*cluster.Autoscaler) bool {
	wrote := false
	from, continued := k.reached(ref)
	for _, a := range owners {
		if continued && a.Key.Compare(from) < 0 {
			wrote = true
			continue
		}
		if p := a.Policy(ref.Container); p != nil && p.Off {
			continue
		}
		err := k.store.checkpoints.Write(ctx, checkpoint.CheckpointKey{Autoscaler: a.Key, Container: ref.Container}, c)
		switch {
		case err == nil:
			k.health.Active(time.Now())
			k.metrics.checkpoint.WithLabelValues("written").Inc()
			wrote = true
		case ctx.Err() != nil || nearlyOver(ctx):
			k.metrics.checkpoint.WithLabelValues("postponed").Inc()
			if wrote {
				k.stop(ref, a.Key)
			}
			return false
		default:
			k.metrics.checkpoint.WithLabelValues("failed").Inc()
			k.log.Warn("Cannot store usage history; the next pass tries again", slog.String("vpa", a.Key.String()), slog.String("container", ref.Container), slog.Any("error", err))
		}
	}
	return wrote
}

// nearlyOver reports whether the rate limit refuses requests because the deadline would come first.
func nearlyOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Second
}

// reached returns the autoscaler at which the storing of a container continues; none where the last time all were reached.
func (k *checkpointer) reached(ref usage.Ref) (cluster.Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.next[ref]
	delete(k.next, ref)
	return key, ok
}

// stop notes the autoscaler that was not reached.
func (k *checkpointer) stop(ref usage.Ref, at cluster.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next[ref] = at
}

// forget says that history was forgotten: what is stored of it is not needed any more.
func (k *checkpointer) forget(refs []usage.Ref) {
	for _, r := range refs {
		if !k.config.ReadOnly { // which deletes nothing
			k.gone[r] = true
		}
		delete(k.saved, r)
		delete(k.next, r)
	}
}

// collectTimeout is how long a pass may delete what is stored: some thousand objects at 50 requests a second. The next pass
// continues.
const collectTimeout = time.Minute

// collect deletes what is stored of autoscalers that do not exist any more, of whatever recommender, and of our containers
// whose history was forgotten. What else is stored of those of another recommender is not ours to judge.
func (k *checkpointer) collect(ctx context.Context, now time.Time, all, ours []*cluster.Autoscaler) {
	if now.Sub(k.collected) < k.config.CheckpointsGC || k.config.ReadOnly {
		return
	}
	before := k.collected
	k.collected = now
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	targets, own := make(map[cluster.Key]*cluster.Autoscaler, len(all)), make(map[cluster.Key]bool, len(ours))
	for _, a := range all {
		targets[a.Key] = a
	}
	for _, a := range ours {
		own[a.Key] = true
	}
	n, err := k.store.checkpoints.Collect(ctx, func(key checkpoint.CheckpointKey) bool {
		k.health.Active(time.Now())
		a := targets[key.Autoscaler]
		if a == nil || !own[a.Key] {
			return a != nil
		}
		ref := usage.Ref{Workload: a.Target, Container: key.Container}
		return !k.gone[ref] || k.usageStore.Series(a.Target, key.Container) != nil
	})
	k.health.Active(time.Now())
	needed := k.needed(all, ours)
	m, historiesErr := k.store.histories.Collect(ctx, func(w cluster.Workload) bool {
		k.health.Active(time.Now())
		return needed(w)
	})
	k.forgetGone(targets)
	err = errors.Join(err, historiesErr)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && n+m > 0:
		k.collected = before
		k.log.Info("Deleted some of the stored usage history that is not needed; the next pass continues", slog.Int("checkpoints", n), slog.Int("histories", m))
		return
	case errors.Is(ctx.Err(), context.Canceled):
		return
	default:
		k.log.Warn("Cannot remove stored usage history that nobody needs", slog.Any("error", err))
		return
	}
	if n > 0 || m > 0 {
		k.log.Info("Removed stored usage history that nobody needs", slog.Int("checkpoints", n), slog.Int("histories", m))
	}
	clear(k.gone)
	for key := range k.waiting {
		if targets[key.Autoscaler] == nil {
			delete(k.waiting, key)
		}
	}
	for key := range k.storedOf {
		if targets[key] == nil {
			delete(k.storedOf, key)
		}
	}
	for w := range k.remembered {
		if !needed(w) {
			delete(k.remembered, w)
		}
	}
}

// forgetGone forgets the forgotten history of workloads that no autoscaler names: collect deletes the checkpoints of those by
// themselves, however often deleting fails.
func (k *checkpointer) forgetGone(all map[cluster.Key]*cluster.Autoscaler) {
	if len(k.gone) == 0 {
		return
	}
	named := make(map[cluster.Workload]bool, len(all))
	for _, a := range all {
		named[a.Target] = true
	}
	maps.DeleteFunc(k.gone, func(r usage.Ref, _ bool) bool { return !named[r.Workload] })
}

// needed returns which workloads' histories are needed. An autoscaler of another recommender may need what is stored of the
// workload that it names, and one that cannot be read may name any workload of its namespace. Those that are all ours need it
// where the profile remembers something and the book still has a container. Under a name of its own a recommender knows of
// no profiles, and judges nobody.
func (k *checkpointer) needed(all, ours []*cluster.Autoscaler) func(cluster.Workload) bool {
	own := make(map[cluster.Key]bool, len(ours))
	for _, a := range ours {
		own[a.Key] = true
	}
	named, foreign := make(map[cluster.Workload]bool, len(all)), make(map[cluster.Workload]bool)
	unreadable := make(map[string]bool) // namespaces
	for _, a := range all {
		switch {
		case a.Target.IsZero():
			unreadable[a.Namespace] = true
		case !own[a.Key] || k.config.NameGiven():
			foreign[a.Target] = true
		default:
			named[a.Target] = true
		}
	}
	return func(w cluster.Workload) bool {
		return foreign[w] || unreadable[w.Namespace] || named[w] && k.usageStore.Extended(w) && len(k.usageStore.All(w)) > 0
	}
}
