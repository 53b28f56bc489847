// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package history moves the usage history of the recommender between its usage store and the outside: a Checkpointer loads checkpoints
// and model state at startup and stores them while the recommender runs, and a Backfill reads history from Prometheus.
//
// It makes no recommendations and decides no sizes. While history is missing, package recommender asks Backfill whether a
// recommendation may decrease.
package history

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// checkpointStore stores the histograms of each VPA and container.
type checkpointStore interface {
	Load(ctx context.Context) (map[checkpoint.Key]usage.Checkpoint, error)
	Write(ctx context.Context, key checkpoint.Key, c usage.Checkpoint) error
	Collect(ctx context.Context, unused checkpoint.Unused) (int, error)
}

// modelStateStore stores the model state of each workload, in UsageHistory objects.
type modelStateStore interface {
	Load(ctx context.Context) (map[cluster.Workload][]usage.History, error)
	// Unread returns why the last Load has read nothing, if the CRD or a right is missing. Then nothing is written or deleted.
	Unread() error
	// Write reports whether it wrote. It does not write if the stored state is the same.
	Write(ctx context.Context, w cluster.Workload, hs []usage.History) (bool, error)
	Collect(ctx context.Context, needed checkpoint.Needed) (int, error)
}

// Storage stores the usage history and the model state.
type Storage struct {
	Checkpoints checkpointStore
	ModelStates modelStateStore
}

// Limits of the history that is lost if the process is killed: at most ten minutes, and at most a twentieth of the history. After
// an OOM kill the history is stored in the same pass. The ten-minute intervals of workloads have different offsets, which
// distributes the writes over time.
const (
	longestUnsaved = 10 * time.Minute
	unsavedShare   = 20
)

// collectTimeout is the maximum time that a pass spends on deleting unused objects: about 3000 at 50 requests per second. The
// next pass continues.
const collectTimeout = time.Minute

// CheckpointerConfig is the configuration of a Checkpointer.
type CheckpointerConfig struct {
	Unsaved      bool          // nothing is written, because history is read from Prometheus at each start
	DryRun       bool          // nothing is written or deleted
	NameGiven    bool          // --recommender-name is set, so there are no profiles
	EachPass     bool          // a changed history is written in each pass, as upstream does
	Workers      int           // number of concurrent writers
	WriteTimeout time.Duration // maximum time of the writes of a pass
	GCInterval   time.Duration // time between two garbage collections
}

// A Checkpointer writes the usage history and the model state to storage, and restores them. The recommender's goroutine owns it.
type Checkpointer struct {
	config     CheckpointerConfig
	usageStore *usage.Store
	groups     *usage.Store // of groups of pods, which are stored as model state of their own
	store      Storage
	metrics    *Metrics
	health     *process.Health // gets progress signals, because storing can take longer than the limit of the health check
	log        *slog.Logger

	// Nodes are the smallest nodes that sizing holds, by workload: at first those of the loaded checkpoints, later what the next checkpoints contain.
	Nodes map[cluster.Workload]string

	// Checkpoints that are loaded and not restored, because their VPA does not exist or is not served.
	loadedCheckpoints map[checkpoint.Key]usage.Checkpoint
	// Model state that is loaded and not restored, because no served VPA references the workload or its profile has no model state.
	loadedModelStates map[cluster.Workload][]usage.History
	loadedGroups      map[cluster.Workload][]group     // histories of groups of pods that are loaded and not restored, by workload
	unread            error                            // why the model state is not loaded, although the recommender runs; nil if it is
	loading           attempt.Failures                 // to load it
	savedAt           map[usage.Ref]time.Time          // when the history of a container was last stored
	expired           map[usage.Ref]bool               // containers whose history expired, so their checkpoints can be deleted
	storedOf          map[cluster.Key]cluster.Workload // by VPA: the workload of its newest loaded checkpoint, if that names one
	profileOf         map[cluster.Key]string           // by VPA: the SizingProfile in its newest loaded checkpoint that names one
	collectedAt       time.Time                        // the last garbage collection
	// The VPA to continue with, if the time ran out before all VPAs of the workload had a checkpoint.
	resumeAt map[usage.Ref]cluster.Key
}

// NewCheckpointer returns a Checkpointer for a usage store and that of groups of pods, before Load.
func NewCheckpointer(c CheckpointerConfig, u, groups *usage.Store, store Storage, m *Metrics, h *process.Health, log *slog.Logger) *Checkpointer {
	return &Checkpointer{
		config: c, usageStore: u, groups: groups, store: store, metrics: m, health: h, log: log,
		loadedCheckpoints: map[checkpoint.Key]usage.Checkpoint{}, loadedModelStates: map[cluster.Workload][]usage.History{},
		savedAt: map[usage.Ref]time.Time{}, expired: map[usage.Ref]bool{}, storedOf: map[cluster.Key]cluster.Workload{},
		profileOf: map[cluster.Key]string{},
		resumeAt:  map[usage.Ref]cluster.Key{},
	}
}

// Load reads all checkpoints and model state. It retries until it succeeds or ctx ends. The recommender must not run without
// them, because it would overwrite them.
func (k *Checkpointer) Load(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		checkpoints, checkpointsErr := k.store.Checkpoints.Load(ctx)
		modelStates, modelStatesErr := k.store.ModelStates.Load(ctx)
		err := errors.Join(checkpointsErr, modelStatesErr)
		if err == nil {
			k.loadedCheckpoints = checkpoints
			k.keepLoaded(modelStates)
			k.unread = k.store.ModelStates.Unread()
			k.storedOf = newest(checkpoints, func(c *usage.Checkpoint) cluster.Workload { return c.Workload })
			k.profileOf = newest(checkpoints, func(c *usage.Checkpoint) string { return c.Profile })
			k.Nodes = make(map[cluster.Workload]string)
			for _, c := range newest(checkpoints, func(c *usage.Checkpoint) storedNode { return storedNode{c.Workload, c.Node} }) {
				k.Nodes[c.of] = c.node
			}
			k.log.Info("Loaded the stored usage history", slog.Int("checkpoints", len(k.loadedCheckpoints)), slog.Int("histories", len(k.loadedModelStates)))
			return nil
		}
		if ctx.Err() == nil {
			k.log.Warn("Cannot load the stored usage history; no recommendations are made until it is loaded", slog.Any("error", err),
				slog.String("retryAfter", wait.String()), slog.String("remedy", remedyOf(checkpointsErr)))
		}
		if !kube.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// remedyOf returns what to do about an error of loading checkpoints.
func remedyOf(err error) string {
	if errors.Is(err, kube.ErrForbidden) {
		return "grant the recommender create, delete, get, list and patch on verticalpodautoscalercheckpoints.autoscaling.k8s.io, as deploy/10-rbac.yaml does"
	}
	return "check that the API server answers; loading is repeated until it succeeds"
}

// Limits of loading model state after the start.
const (
	loadAgainTimeout = 2 * time.Minute // for one attempt, during which there is no pass
	firstLoadAgain   = time.Minute     // wait before the first attempt; it doubles with each failure
	longestLoadAgain = 10 * time.Minute
)

// LoadAgain tries to load the model state if the CRD or a right was missing at the start. Restore merges it with the model state since then.
// Until it is loaded, the stored model state is not overwritten.
func (k *Checkpointer) LoadAgain(ctx context.Context, now time.Time) {
	if k.unread == nil {
		return
	}
	if k.loading.Count == 0 {
		k.loading.Add(now, firstLoadAgain, longestLoadAgain)
	}
	if now.Before(k.loading.Retry) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadAgainTimeout)
	defer cancel()
	modelStates, err := k.store.ModelStates.Load(ctx)
	k.health.Active(time.Now())
	if err == nil {
		k.unread = k.store.ModelStates.Unread()
	}
	if err != nil || k.unread != nil {
		k.loading.Add(now, firstLoadAgain, longestLoadAgain)
		if err != nil && ctx.Err() != context.Canceled {
			k.log.Warn("Cannot load the stored model state; it is neither used nor overwritten until it is loaded", slog.Any("error", err),
				slog.String("retryAfter", k.loading.Retry.Sub(now).String()))
		}
		return
	}
	k.loading = attempt.Failures{}
	for w, hs := range k.loadedModelStates { // of checkpoints that could not be restored
		if _, loaded := modelStates[w]; !loaded {
			modelStates[w] = hs
		}
	}
	k.keepLoaded(modelStates)
	k.log.Info("Loaded the stored model state", slog.Int("histories", len(modelStates)))
}

// TakeProfiles returns the SizingProfile of each VPA whose loaded checkpoints name one, and forgets them.
func (k *Checkpointer) TakeProfiles() map[cluster.Key]string {
	profiles := k.profileOf
	k.profileOf = map[cluster.Key]string{}
	return profiles
}

// StoredWorkload returns the workload that the newest loaded checkpoint of a VPA is for. It is zero if there is none.
func (k *Checkpointer) StoredWorkload(vpa cluster.Key) cluster.Workload { return k.storedOf[vpa] }

// A storedNode is the smallest node in a checkpoint, and the workload that it is for.
type storedNode struct {
	of   cluster.Workload
	node string
}

// newest returns a value of the newest checkpoint of each VPA that has the value.
func newest[V comparable](checkpoints map[checkpoint.Key]usage.Checkpoint, value func(*usage.Checkpoint) V) map[cluster.Key]V {
	var none V
	out := map[cluster.Key]V{}
	updated := map[cluster.Key]time.Time{}
	for key, c := range checkpoints {
		at, known := updated[key.Autoscaler]
		if v := value(&c); v != none && (!known || c.Updated.After(at)) {
			updated[key.Autoscaler] = c.Updated
			out[key.Autoscaler] = v
		}
	}
	return out
}

// sizingProfile returns the name of the SizingProfile of a VPA, or "" if a built-in profile sizes it.
func (k *Checkpointer) sizingProfile(a *cluster.Autoscaler) string {
	if _, builtin := recommend.Builtin(a.Recommender); builtin || k.config.NameGiven {
		return ""
	}
	return a.Recommender
}

// Restore adds the loaded history of served VPAs to the usage store.
func (k *Checkpointer) Restore(now time.Time, ours []*cluster.Autoscaler) {
	k.restoreCheckpoints(now, ours)
	k.restoreGroups(ours)
	if len(k.loadedModelStates) == 0 {
		return
	}
	for _, a := range ours { // containers without a checkpoint
		if !k.usageStore.Extended(a.Target) {
			continue
		}
		for _, h := range k.loadedModelStates[a.Target] {
			if err := k.usageStore.Recall(a.Target, h); err != nil {
				k.log.Warn("Cannot restore stored model state; it is kept until new model state replaces it",
					slog.String("vpa", a.Key.String()), slog.String("container", h.Container), slog.Any("error", err))
			}
		}
		delete(k.loadedModelStates, a.Target)
	}
}

// restoreCheckpoints adds the loaded checkpoints of served VPAs, with the model state of their containers, to the usage store. If
// several VPAs have a checkpoint of a container, the first one is used, because all contain the same history.
func (k *Checkpointer) restoreCheckpoints(now time.Time, ours []*cluster.Autoscaler) {
	if len(k.loadedCheckpoints) == 0 {
		return
	}
	targets := make(map[cluster.Key]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		targets[a.Key] = a
	}
	for _, key := range k.restorable(targets) {
		a := targets[key.Autoscaler]
		c := k.loadedCheckpoints[key]
		if !c.Workload.IsZero() && c.Workload != a.Target {
			continue // the VPA referenced another workload when it was written, and may reference it again
		}
		delete(k.loadedCheckpoints, key)
		ref := usage.Ref{Workload: a.Target, Container: key.Container}
		if _, done := k.savedAt[ref]; done {
			continue
		}
		c.History = k.takeModelState(ref)
		err := k.usageStore.Restore(a.Target, key.Container, c)
		if err != nil {
			k.log.Warn("Cannot restore a checkpoint; it is kept until a new checkpoint replaces it",
				slog.String("vpa", key.Autoscaler.String()), slog.String("container", key.Container), slog.Any("error", err))
		}
		if err == nil || errors.Is(err, usage.ErrExtra) || errors.Is(err, usage.ErrHistory) {
			k.savedAt[ref] = c.Updated
			if c.Updated.After(now) { // written while the clock was ahead; it must not delay the next write
				k.savedAt[ref] = now
			}
		} else if len(c.History.Data) > 0 {
			k.loadedModelStates[ref.Workload] = append(k.loadedModelStates[ref.Workload], c.History) // usable without the checkpoint
		}
	}
}

// RestoreFormer adds the loaded history of workloads that no longer exist to the usage store, whichever VPA it was stored for: the newest one of a
// container.
func (k *Checkpointer) RestoreFormer(now time.Time, gone map[cluster.Workload]bool) {
	var keys []checkpoint.Key
	for key, c := range k.loadedCheckpoints {
		if gone[c.Workload] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y checkpoint.Key) int {
		newer := k.loadedCheckpoints[y].Updated.Compare(k.loadedCheckpoints[x].Updated)
		return cmp.Or(newer, x.Autoscaler.Compare(y.Autoscaler), strings.Compare(x.Container, y.Container))
	})
	for _, key := range keys {
		c := k.loadedCheckpoints[key]
		ref := usage.Ref{Workload: c.Workload, Container: key.Container}
		if _, done := k.savedAt[ref]; done {
			continue
		}
		k.savedAt[ref] = now // whether it can be restored or not
		for _, h := range k.loadedModelStates[c.Workload] {
			if h.Container == key.Container {
				c.History = h
			}
		}
		if err := k.usageStore.Restore(c.Workload, key.Container, c); err != nil {
			k.log.Warn("Cannot read the checkpoint of a deleted workload, so its usage history is not added to the workload that replaces it",
				slog.String("vpa", key.Autoscaler.String()), slog.String("container", key.Container), slog.Any("error", err))
		}
	}
}

// restorable returns the keys of the loaded checkpoints whose VPAs are served and have a target. Checkpoints of older VPAs come
// first.
func (k *Checkpointer) restorable(served map[cluster.Key]*cluster.Autoscaler) []checkpoint.Key {
	var keys []checkpoint.Key
	for key := range k.loadedCheckpoints {
		if a := served[key.Autoscaler]; a != nil && !a.Target.IsZero() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y checkpoint.Key) int {
		createdX := served[x.Autoscaler].Created
		createdY := served[y.Autoscaler].Created
		return cmp.Or(createdX.Compare(createdY), x.Autoscaler.Compare(y.Autoscaler), strings.Compare(x.Container, y.Container))
	})
	return keys
}

// takeModelState removes the loaded model state of a container and returns it, or zero if the workload has no extension.
func (k *Checkpointer) takeModelState(ref usage.Ref) usage.History {
	hs := k.loadedModelStates[ref.Workload]
	i := slices.IndexFunc(hs, func(h usage.History) bool { return h.Container == ref.Container })
	if i < 0 || !k.usageStore.Extended(ref.Workload) {
		return usage.History{}
	}
	h := hs[i]
	k.loadedModelStates[ref.Workload] = slices.Delete(hs, i, i+1)
	return h
}

// Save stores the changed histories that are due, in the order of Pending, until --checkpoints-timeout is over.
func (k *Checkpointer) Save(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(s *usage.ContainerHistory, last time.Time) bool {
		if at, _, _ := s.LastOOM(); k.config.EachPass || at.After(last) {
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
		return saveInterval(w, now) != saveInterval(w, last) // different, not greater: the clock may have been set back
	})
}

// saveInterval returns the number of the ten-minute interval of a workload that contains a time.
func saveInterval(w cluster.Workload, at time.Time) int64 {
	const seconds = int64(longestUnsaved / time.Second)
	offset := fnv.New32a()
	_, _ = offset.Write([]byte(w.String()))
	return (at.Unix() + int64(offset.Sum32())%seconds) / seconds
}

// Flush stores all changed histories. It is called when the process ends.
func (k *Checkpointer) Flush(ctx context.Context, now time.Time, ours []*cluster.Autoscaler) {
	k.write(ctx, now, ours, func(*usage.ContainerHistory, time.Time) bool { return true })
}

// write stores the changed histories for which isDue returns true. isDue gets the history and the time when it was last stored.
func (k *Checkpointer) write(ctx context.Context, now time.Time, ours []*cluster.Autoscaler, isDue func(*usage.ContainerHistory, time.Time) bool) {
	if k.config.Unsaved || k.config.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.config.WriteTimeout)
	defer cancel()
	vpas := make(map[cluster.Workload][]*cluster.Autoscaler, len(ours))
	for _, a := range ours {
		if !a.FetchingHistory {
			vpas[a.Target] = append(vpas[a.Target], a)
		}
	}
	var g errgroup.Group
	var all []*unsaved // of each, one worker has access until all have ended
	g.SetLimit(k.config.Workers)
	for _, refs := range k.pending(now) {
		w := refs[0].Workload
		store, isGroup := k.storeOf(w)
		refs = slices.DeleteFunc(refs, func(r usage.Ref) bool {
			return !isGroup && !sizedByAny(r.Container, vpas[w]) || !isDue(store.Series(w, r.Container), k.savedAt[r])
		})
		if len(refs) == 0 || ctx.Err() != nil {
			continue
		}
		process.Attempt(k.log, k.health, w.String(), func() {
			pack := k.pack
			if isGroup {
				pack = k.packGroup
			}
			modelStates, ofWorkload := pack(now, w, refs)
			all = append(all, ofWorkload...)
			g.Go(func() error {
				process.Attempt(k.log, k.health, w.String(), func() { k.storeWorkload(ctx, modelStates, ofWorkload, vpas[w]) })
				return nil
			})
		})
	}
	_ = g.Wait() // errors are logged where they occur
	for _, d := range all {
		k.saved(now, d, vpas[d.ref.Workload])
	}
}

// storeOf returns the usage store that has the history of a workload or a group of pods, and whether it is a group.
func (k *Checkpointer) storeOf(w cluster.Workload) (*usage.Store, bool) {
	if _, isGroup := w.Ungrouped(); isGroup {
		return k.groups, true
	}
	return k.usageStore, false
}

// pack returns what is to be stored of containers of a workload.
func (k *Checkpointer) pack(now time.Time, w cluster.Workload, refs []usage.Ref) (modelStates []usage.History, all []*unsaved) {
	modelStates = k.usageStore.Histories(w, now)
	for _, r := range refs {
		if c, ok := k.usageStore.Checkpoint(w, r.Container, now); ok {
			all = append(all, &unsaved{ref: r, checkpoint: c, resumeAt: k.resumeAt[r]})
		}
	}
	return modelStates, all
}

// saved records whether the history of a container is stored.
func (k *Checkpointer) saved(now time.Time, d *unsaved, vpas []*cluster.Autoscaler) {
	k.resumeAt[d.ref] = d.resumeAt
	if d.resumeAt == (cluster.Key{}) {
		delete(k.resumeAt, d.ref)
	}
	if !d.isStored {
		return
	}
	store, _ := k.storeOf(d.ref.Workload)
	store.Saved(d.ref.Workload, d.ref.Container, d.checkpoint)
	k.savedAt[d.ref] = now
	for _, a := range vpas {
		delete(k.loadedCheckpoints, checkpoint.Key{Autoscaler: a.Key, Container: d.ref.Container}) // the stored checkpoint is newer
	}
}

// pending returns the containers with changed histories, by workload or group of pods. Those that were stored longest ago come first, so that each is
// stored some time, also if the time does not suffice for all.
func (k *Checkpointer) pending(now time.Time) [][]usage.Ref {
	all := append(byWorkload(k.usageStore.Pending(now)), byWorkload(k.groups.Pending(now))...)
	slices.SortStableFunc(all, func(a, b []usage.Ref) int { return k.savedAt[a[0]].Compare(k.savedAt[b[0]]) })
	return all
}

// An unsaved is a container whose history is to be stored.
type unsaved struct {
	ref        usage.Ref
	checkpoint usage.Checkpoint
	resumeAt   cluster.Key // as in Checkpointer; zero: the first VPA
	isStored   bool
}

func (k *Checkpointer) storeWorkload(ctx context.Context, modelStates []usage.History, all []*unsaved, vpas []*cluster.Autoscaler) {
	defer func() { k.health.Active(time.Now()) }()
	if len(all) == 0 {
		return
	}
	_, isGroup := k.storeOf(all[0].ref.Workload)
	separate := k.storeModelStates(ctx, all[0].ref.Workload, modelStates)
	for _, d := range all {
		c := d.checkpoint
		if separate {
			c.History = usage.History{}
		} else {
			c = c.Carry()
		}
		d.isStored = isGroup && separate || !isGroup && k.storeCheckpoint(ctx, d, c, vpas)
	}
}

// byWorkload groups containers by workload. The groups have the order of their first container.
func byWorkload(refs []usage.Ref) [][]usage.Ref {
	index := map[cluster.Workload]int{}
	var groups [][]usage.Ref
	for _, r := range refs {
		i, ok := index[r.Workload]
		if !ok {
			i = len(groups)
			index[r.Workload] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// storeModelStates stores the model state of a workload if it changed, and reports whether it is stored. If not, the checkpoints
// contain it, unless it is that of a group of pods. It is stored before the checkpoints, so that each OOM kill in a checkpoint is in the model state too.
func (k *Checkpointer) storeModelStates(ctx context.Context, w cluster.Workload, modelStates []usage.History) bool {
	if len(modelStates) == 0 {
		return true
	}
	wrote, err := k.store.ModelStates.Write(ctx, w, modelStates)
	outcome := "failed"
	switch _, isGroup := k.storeOf(w); {
	case err == nil && !wrote:
		return true
	case err == nil:
		outcome = "written"
	case ctx.Err() != nil:
		outcome = "postponed"
	case errors.Is(err, kube.ErrUnsupported), k.unread != nil: // the store logs this once
		if !isGroup {
			outcome = "carried"
		}
	default:
		k.log.Warn("Cannot write model state to a UsageHistory; the next pass tries again", slog.String("workload", w.String()), slog.Any("error", err))
	}
	k.metrics.modelStates.WithLabelValues(outcome).Inc()
	return err == nil
}

// sizedByAny reports whether one of the VPAs sizes a container. The history of a container that no VPA sizes is never stored and
// never due.
func sizedByAny(container string, vpas []*cluster.Autoscaler) bool {
	return slices.ContainsFunc(vpas, func(a *cluster.Autoscaler) bool {
		p := a.Policy(container)
		return p == nil || !p.Off
	})
}

// storeCheckpoint writes the checkpoint of a container for each VPA that references its workload. It reports whether all VPAs were
// tried and at least one write succeeded. A failed write does not affect the other VPAs. If the time is over, the next call
// resumes with the first VPA that was not tried.
func (k *Checkpointer) storeCheckpoint(ctx context.Context, d *unsaved, c usage.Checkpoint, vpas []*cluster.Autoscaler) bool {
	wrote := false
	from := d.resumeAt
	d.resumeAt = cluster.Key{}
	for _, a := range vpas {
		if a.Key.Compare(from) < 0 {
			wrote = true
			continue
		}
		if p := a.Policy(d.ref.Container); p != nil && p.Off {
			continue
		}
		c.Profile = k.sizingProfile(a)
		c.Node = k.Nodes[d.ref.Workload]
		err := k.store.Checkpoints.Write(ctx, checkpoint.Key{Autoscaler: a.Key, Container: d.ref.Container}, c)
		switch {
		case err == nil:
			k.health.Active(time.Now())
			k.metrics.checkpoints.WithLabelValues("written").Inc()
			wrote = true
		case ctx.Err() != nil || nearlyOver(ctx):
			k.metrics.checkpoints.WithLabelValues("postponed").Inc()
			if wrote {
				d.resumeAt = a.Key
			}
			return false
		default:
			k.metrics.checkpoints.WithLabelValues("failed").Inc()
			k.log.Warn("Cannot write a checkpoint; the next pass retries", slog.String("vpa", a.Key.String()), slog.String("container", d.ref.Container), slog.Any("error", err))
		}
	}
	return wrote
}

// nearlyOver reports whether the deadline is so close that the rate limiter rejects requests.
func nearlyOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Second
}

// Forget marks containers whose history expired, so that Collect deletes their checkpoints.
func (k *Checkpointer) Forget(refs []usage.Ref) {
	for _, r := range refs {
		if !k.config.DryRun {
			k.expired[r] = true
		}
		delete(k.savedAt, r)
		delete(k.resumeAt, r)
	}
}

// Collect deletes unused checkpoints and UsageHistories at the interval of --checkpoints-gc-interval. A checkpoint is unused if its
// VPA does not exist, or if its VPA is served and the history of the container expired. Other checkpoints of VPAs of another
// recommender are kept.
func (k *Checkpointer) Collect(ctx context.Context, now time.Time, all, ours []*cluster.Autoscaler) {
	if now.Sub(k.collectedAt) < k.config.GCInterval || k.config.DryRun {
		return
	}
	before := k.collectedAt
	k.collectedAt = now
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	unused := k.unused(all, ours)
	deletedCheckpoints, err := k.store.Checkpoints.Collect(ctx, unused)
	k.health.Active(time.Now())
	needed := k.needed(all, ours)
	deletedHistories, historiesErr := k.store.ModelStates.Collect(ctx, needed)
	k.health.Active(time.Now())
	k.unmarkUnreferenced(all)
	err = errors.Join(err, historiesErr)
	deleted := deletedCheckpoints+deletedHistories > 0
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && deleted:
		k.collectedAt = before
		k.log.Info("Deleted some of the unused checkpoints and UsageHistories; the next pass deletes more",
			slog.Int("checkpoints", deletedCheckpoints), slog.Int("histories", deletedHistories))
		return
	case errors.Is(ctx.Err(), context.Canceled):
		return
	default:
		k.log.Warn("Cannot delete unused checkpoints or UsageHistories", slog.Any("error", err))
		return
	}
	if deleted {
		k.log.Info("Deleted unused checkpoints and UsageHistories",
			slog.Int("checkpoints", deletedCheckpoints), slog.Int("histories", deletedHistories))
	}
	clear(k.expired)
	maps.DeleteFunc(k.loadedCheckpoints, func(key checkpoint.Key, _ usage.Checkpoint) bool { return !unused.Existing[key.Autoscaler] })
	maps.DeleteFunc(k.storedOf, func(key cluster.Key, _ cluster.Workload) bool { return !unused.Existing[key] })
	maps.DeleteFunc(k.loadedModelStates, func(w cluster.Workload, _ []usage.History) bool { return !needed.Has(w) })
}

// unused returns the checkpoints that are not used any more: those of VPAs that do not exist, and of containers of served VPAs whose
// history expired.
func (k *Checkpointer) unused(all, ours []*cluster.Autoscaler) checkpoint.Unused {
	expired := make(map[cluster.Workload][]string, len(k.expired))
	for ref := range k.expired {
		if k.usageStore.Series(ref.Workload, ref.Container) == nil {
			expired[ref.Workload] = append(expired[ref.Workload], ref.Container)
		}
	}
	unused := checkpoint.Unused{Existing: cluster.KeysOf(all), Expired: map[checkpoint.Key]bool{}}
	for _, a := range ours {
		for _, container := range expired[a.Target] {
			unused.Expired[checkpoint.Key{Autoscaler: a.Key, Container: container}] = true
		}
	}
	return unused
}

// unmarkUnreferenced removes the marks of expired containers whose workload no VPA references. Collect deletes their checkpoints
// without a mark, because their VPA does not exist. So the marks do not accumulate if deleting fails.
func (k *Checkpointer) unmarkUnreferenced(all []*cluster.Autoscaler) {
	if len(k.expired) == 0 {
		return
	}
	referenced := cluster.SetOf(all, func(a *cluster.Autoscaler) cluster.Workload { return a.Target })
	maps.DeleteFunc(k.expired, func(r usage.Ref, _ bool) bool { return !referenced[r.Workload] })
}

// needed returns the workloads whose model state is needed. It is needed in these cases:
//
//   - A VPA of another recommender references the workload and may use it. With --recommender-name this is each VPA, because
//     that recommender has no profiles and cannot decide.
//   - The namespace has a VPA whose target cannot be read, and which may reference the workload.
//   - Only served VPAs reference the workload, its profile has model state, and the usage store has one of its containers.
func (k *Checkpointer) needed(all, ours []*cluster.Autoscaler) checkpoint.Needed {
	own := cluster.KeysOf(ours)
	needed := checkpoint.Needed{Workloads: make(map[cluster.Workload]bool, len(all)), Grouped: map[cluster.Workload]bool{}, Namespaces: map[string]bool{}}
	for _, a := range all {
		if !own[a.Key] || len(k.loadedGroups[a.Target]) > 0 {
			needed.Grouped[a.Target] = true
		}
		switch {
		case a.Target.IsZero():
			needed.Namespaces[a.Namespace] = true
		case !own[a.Key] || k.config.NameGiven, k.usageStore.Extended(a.Target) && len(k.usageStore.All(a.Target)) > 0:
			needed.Workloads[a.Target] = true
		}
	}
	for _, w := range k.groups.Governed() {
		needed.Workloads[w] = true
	}
	return needed
}

// Metrics are the metrics of loading and storing usage history. Those that upstream has keep upstream's names.
type Metrics struct {
	checkpoints *prometheus.CounterVec
	modelStates *prometheus.CounterVec
	namespaces  *process.SnapshotGauge   // of the backfill
	requests    *prometheus.CounterVec   // to Prometheus
	durations   *prometheus.HistogramVec // of requests to Prometheus
}

// NewMetrics registers the metrics of loading and storing usage history.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{
		checkpoints: process.NewCounter(reg, "podfit_recommender", "checkpoint_writes_total", "Number of checkpoint writes, by outcome.", "outcome"),
		modelStates: process.NewCounter(reg, "podfit_recommender", "history_writes_total", "Number of writes of UsageHistory objects, by outcome.", "outcome"),
		namespaces: process.NewSnapshotGauge(reg, "podfit_recommender", "history_backfill_namespaces",
			"With --storage=prometheus: number of namespaces by the state of their backfill: pending, incomplete or done.", "state"),
		requests: process.NewCounter(reg, "vpa_recommender", "prometheus_client_api_requests_count", "Number of requests to Prometheus.", "code", "method"),
		durations: promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "vpa_recommender", Name: "prometheus_client_api_requests_duration_seconds", Help: "Duration of requests to Prometheus.",
			Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300},
		}, []string{"code", "method"}),
	}
}

// publishBackfill replaces the number of namespaces in each state of the backfill.
func (m *Metrics) publishBackfill(count map[BackfillState]int) {
	next := m.namespaces.Next()
	for _, s := range []BackfillState{BackfillPending, BackfillIncomplete, BackfillDone} {
		next.WithLabelValues(s.String()).Set(float64(count[s]))
	}
	m.namespaces.Publish(next)
}
