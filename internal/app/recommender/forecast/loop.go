// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package forecast keeps the CapacityPlan of the cluster up to date: once a minute it measures the pools of nodes, records the maximum of
// the day, and computes the forecast. It stores the plan in the cluster when it has changed, and publishes it as metrics. It runs beside the
// passes of the recommender, with the same watches.
package forecast

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/prom"
)

// The times of the loop.
const (
	interval     = time.Minute      // between two passes
	writeEvery   = 10 * time.Minute // the least time between two writes, unless conditions, dates or pools change
	maxAtOnce    = 3                // writes in writeEvery after which such a change waits, too
	readTimeout  = 30 * time.Second // of reading the plan
	fillTimeout  = 30 * time.Second // of reading a week of the past from Prometheus, so that a slow one delays no write
	writeTimeout = 30 * time.Second // of writing the plan
	retryAfter   = 10 * time.Minute // the time without requests after the plan was not available
	forgetAfter  = capacity.GrowthDays
)

type world interface {
	Snapshot() *cluster.Snapshot
	Stale(time.Time) []string
	Nodes() []cluster.Node
	Selectors() []cluster.NodeSelector
	Tolerations() []cluster.Tolerations
}

// store is the CapacityPlan of the cluster.
type store interface {
	Read(context.Context) (*v1alpha1.CapacityPlan, error)
	Create(context.Context) (*v1alpha1.CapacityPlan, error)
	WriteStatus(ctx context.Context, version string, s *v1alpha1.CapacityPlanStatus) (string, error)
}

// Dependencies are what a Loop needs.
type Dependencies struct {
	World   world
	Plans   store
	Past    func(context.Context, prom.RequestsQuery) ([]capacity.NodeHour, error) // nil: there is no backfill
	Usage   *Usage                                                                 // nil: usage is not known
	Metrics *Metrics
	DryRun  bool // nothing is written
	Log     *slog.Logger
}

// A Loop keeps the plan up to date in one term of leadership. One goroutine owns it.
//
// The history is loaded from the object before anything is recorded, so that a new leader never replaces it by an empty one. While the
// object cannot be read, only the metrics are published, without dates.
type Loop struct {
	Dependencies
	loaded    bool // the history is that of the object
	version   string
	spec      v1alpha1.CapacityPlanSpec
	specOf    int64 // generation
	before    []metav1.Condition
	histories map[string]*capacity.History
	written   written
	retryAt   time.Time
	logged    string // the last problem that was logged
	backfill  backfill
}

type written struct {
	at       time.Time
	sum      uint64 // of the whole status
	material uint64 // of what readers wait for
	recent   []recentWrite
}

// A recentWrite is one of the writes in the last writeEvery.
type recentWrite struct {
	at       time.Time
	material uint64
}

// isDue reports whether a status is written: after writeEvery, or at once if a part changed for which readers wait. That part may go back and
// forth between the same values, for example with requests around a threshold, so a value that was written in the last writeEvery waits, and
// after maxAtOnce writes each change does.
func (w *written) isDue(now time.Time, material uint64) bool {
	if now.Sub(w.at) >= writeEvery || now.Before(w.at) {
		return true
	}
	recent := 0
	for _, r := range w.recent {
		if now.Sub(r.at) < writeEvery {
			recent++
			if r.material == material {
				return false
			}
		}
	}
	return material != w.material && recent < maxAtOnce
}

// wrote returns what the object contains after a write.
func (w *written) wrote(now time.Time, sum, material uint64) written {
	recent := append(slices.Clone(w.recent), recentWrite{now, material})
	recent = slices.DeleteFunc(recent, func(r recentWrite) bool { return now.Sub(r.at) >= writeEvery || now.Before(r.at) })
	return written{now, sum, material, recent}
}

// New returns a loop.
func New(d Dependencies) *Loop {
	return &Loop{Dependencies: d, histories: map[string]*capacity.History{}}
}

// Run makes a pass per minute until ctx ends. A pass that panics does not end it.
func (l *Loop) Run(ctx context.Context, p *process.Process) {
	process.Every(ctx, interval, p.Recovering("capacity", l.pass))
}

// pass measures, records, publishes and stores.
func (l *Loop) pass(ctx context.Context, now time.Time) {
	nodes := l.World.Nodes()
	if len(nodes) == 0 || slices.ContainsFunc(l.World.Stale(now), func(feed string) bool { return feed == "pods" || feed == "nodes" }) {
		return // what is missing would look like a fall of requests
	}
	if !now.Before(l.retryAt) {
		l.refresh(ctx, now)
	}
	if ctx.Err() != nil {
		return
	}
	settings, allocatable := capacityplan.Settings(&l.spec)
	if l.loaded {
		l.fill(ctx, now, nodes, &settings, allocatable)
	}
	pools, unplaced := capacity.Measure(&capacity.World{
		Nodes: nodes, Snapshot: l.World.Snapshot(), Selectors: l.World.Selectors(), Tolerations: l.World.Tolerations(),
		Used: l.Usage.byPod(now), Rules: settings.Rules, Allocatable: allocatable,
	})
	for i := range pools {
		l.history(pools[i].Name).Record(now, &pools[i])
	}
	plan := capacity.Assess(now, l.withAbsent(pools, now), unplaced, l.histories, settings)
	l.Metrics.publish(&plan)
	if l.loaded && !l.DryRun && !now.Before(l.retryAt) {
		l.write(ctx, now, &plan)
	}
}

func (l *Loop) history(pool string) *capacity.History {
	return cluster.Memo(&l.histories, pool, func() *capacity.History { return new(capacity.History) })
}

// withAbsent adds the pools that have no nodes now but have a history, such as a pool that an autoscaler has scaled to zero. It forgets those
// that have had none for four weeks and, if there are too many pools, those that have had none for the longest time.
func (l *Loop) withAbsent(pools []capacity.Pool, now time.Time) []capacity.Pool {
	out := slices.Clone(pools)
	today := capacity.DayOf(now)
	var absent []string
	for name, h := range l.histories {
		if slices.ContainsFunc(pools, func(p capacity.Pool) bool { return p.Name == name }) {
			continue
		}
		if today-h.Last(today) > forgetAfter {
			delete(l.histories, name)
			continue
		}
		absent = append(absent, name)
	}
	slices.SortFunc(absent, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.histories[b].Last(today), l.histories[a].Last(today)), strings.Compare(a, b))
	})
	for _, name := range absent {
		if len(out) >= capacity.MostPools {
			delete(l.histories, name)
			continue
		}
		out = append(out, capacity.Pool{Name: name})
	}
	slices.SortFunc(out, func(a, b capacity.Pool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// refresh reads the object: its spec, its version, and before the first record its history. It creates the object if there is none.
func (l *Loop) refresh(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	plan, err := l.Plans.Read(ctx)
	if errors.Is(err, kube.ErrNotFound) {
		if l.loaded && l.version != "" { // deleting the object discards the history
			l.histories = map[string]*capacity.History{}
			l.version = ""
			l.before = nil
			l.written = written{}
			l.backfill = backfill{}
			l.Log.Info("The CapacityPlan was deleted; its history starts again")
		}
		plan = &v1alpha1.CapacityPlan{}
		err = nil
		if !l.DryRun {
			plan, err = l.Plans.Create(ctx)
		}
	}
	if errors.Is(err, capacityplan.ErrInvalid) {
		if l.isNew(err) {
			l.Log.Warn("Parts of the CapacityPlan cannot be decoded and are replaced; history may be lost", slog.Any("error", err))
		}
		err = nil
	}
	if errors.Is(err, kube.ErrConflict) {
		return // another client has created it; the next pass reads it
	}
	if err != nil {
		l.retryAt = now.Add(retryAfter)
		if l.isNew(err) {
			l.Log.Warn("Cannot read the CapacityPlan; there are no forecasts until it can be read", slog.Any("error", err), slog.String("remedy", remedyFor(err)))
		}
		return
	}
	l.version = plan.ResourceVersion
	l.spec = plan.Spec
	l.specOf = plan.Generation
	if !l.loaded {
		l.loaded = true
		l.before = plan.Status.Conditions
		l.histories = capacityplan.Histories(&plan.Status)
		if plan.Status.Updated != nil {
			l.written.at = plan.Status.Updated.Time
		}
	}
}

// write stores the plan if it has changed: at once if conditions, dates or pools have, else after writeEvery (written.isDue).
func (l *Loop) write(ctx context.Context, now time.Time, plan *capacity.Plan) {
	status := capacityplan.Status(plan, l.histories, l.before)
	status.ObservedGeneration = l.specOf
	sum := checksum(&status)
	material := checksum(materialOf(&status))
	if sum == l.written.sum || !l.written.isDue(now, material) {
		return
	}
	status.Updated = &metav1.Time{Time: now.Truncate(time.Second)}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	version, err := l.Plans.WriteStatus(ctx, l.version, &status)
	switch {
	case err == nil:
		l.version = version
		l.before = status.Conditions
		l.logged = ""
		l.written = l.written.wrote(now, sum, material)
	case errors.Is(err, kube.ErrConflict), errors.Is(err, kube.ErrNotFound): // the next pass reads it again
	default:
		l.retryAt = now.Add(retryAfter)
		if l.isNew(err) {
			l.Log.Warn("Cannot write the CapacityPlan; its history is kept in memory until it can be written", slog.Any("error", err), slog.String("remedy", remedyFor(err)))
		}
	}
}

// materialOf returns the parts of a status whose changes are written at once.
func materialOf(s *v1alpha1.CapacityPlanStatus) []any {
	out := []any{s.ObservedGeneration}
	for _, c := range s.Conditions {
		out = append(out, c.Type, c.Status)
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		out = append(out, p.Name, p.Nodes, p.SchedulableNodes, p.Pods > 0)
		for _, r := range []*v1alpha1.CapacityResource{&p.CPU, &p.Memory} {
			share := r.Requested.AsApproximateFloat64() / max(r.Capacity.AsApproximateFloat64(), 1e-3)
			out = append(out, int64(shareSteps*share), r.Thresholds, r.OrderBy, r.Advice)
		}
	}
	return out
}

// shareSteps is the number of steps into which the requested share of the capacity is divided: 20 steps of 5 %. A change to another step
// is written at once.
const shareSteps = 20

func checksum(v any) uint64 {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // plain values are always encoded
	}
	h := fnv.New64a()
	_, _ = h.Write(data) // never fails
	return h.Sum64()
}

// isNew reports whether a problem is not the one that was logged last.
func (l *Loop) isNew(err error) bool {
	text := err.Error()
	isNew := l.logged != text
	l.logged = text
	return isNew
}

// remedyFor returns what to do about an error of the API server.
func remedyFor(err error) string {
	switch {
	case errors.Is(err, kube.ErrUnsupported):
		return "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -; or set --capacity-plan=false"
	case errors.Is(err, kube.ErrForbidden):
		return "grant the recommender create and get on capacityplans.podfit.dev and patch on capacityplans.podfit.dev/status, as deploy/10-rbac.yaml does; or set --capacity-plan=false"
	}
	return "podfit tries again in 10 minutes; check the API server"
}

// Usage keeps the usage that the recommender has read last. It is safe for several goroutines. A nil Usage keeps none.
type Usage struct {
	last atomic.Pointer[[]usage.Sample]
}

// Keep replaces the usage. Nobody changes the samples.
func (u *Usage) Keep(samples []usage.Sample) {
	if u != nil {
		u.last.Store(&samples)
	}
}

func (u *Usage) byPod(now time.Time) map[cluster.Key]cluster.Resources {
	if u == nil || u.last.Load() == nil {
		return nil
	}
	return capacity.UsageByPod(*u.last.Load(), now)
}
