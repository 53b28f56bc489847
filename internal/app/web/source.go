// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/price"
	"podfit.dev/podfit/internal/edge/web"
)

// A Journal records the decisions of the updater of this process. It is safe for several goroutines.
type Journal struct {
	mu sync.Mutex
	j  overview.Journal
}

// Record adds the decisions of a pass.
func (j *Journal) Record(now time.Time, decisions []decision.Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.j.Record(now, decisions)
}

func (j *Journal) entries() ([]overview.Entry, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.j.Entries(), j.j.Since
}

// world is the state of the cluster that pages show.
type world interface {
	Snapshot() *cluster.Snapshot
	watcher.Nodes
	Health() []feed.State
	ProfileNames() (names []string, known bool)
}

// store reads the stored usage of single workloads, and what the updater has recorded of them.
type store interface {
	Histories(ctx context.Context, w cluster.Workload) ([]usage.History, error)
	Checkpoint(ctx context.Context, key checkpoint.Key) (usage.Checkpoint, bool, error)
	State(ctx context.Context, w cluster.Workload) (ledger.State, bool, error)
}

const chartDays = 14

// source computes what pages show. It reads only when someone looks at a page, and at most once per interval however many look.
type source struct {
	world   world
	usage   func(context.Context) (metrics.Reading, error)  // of all containers, now
	events  func(context.Context) ([]overview.Entry, error) // recent ones
	store   store
	archive archive

	registrations func(context.Context) (overview.Facts, error) // what the cluster has stored about podfit itself
	process       *process.Process                              // whose loops are shown; nil if it has none
	journal       *Journal                                      // nil: the activity comes from events
	prices        string                                        // path of the price file; "" if there is none
	allPods       bool                                          // the pods of all namespaces are known, so that it is known how full nodes are
	startupBoost  bool
	excluded      []string                                              // names and patterns of namespaces that are not shown
	recordings    *recordings                                           // nil without Prometheus
	plans         func(context.Context) (*v1alpha1.CapacityPlan, error) // nil: there is none
	log           *slog.Logger

	readings
}

// readings are the values that pages are made of.
type readings struct {
	state   reading[*web.State]
	samples reading[metrics.Reading]
	recent  reading[[]overview.Entry]
	surplus reading[*overview.Surplus]
	stored  reading[storedUsage]
	own     reading[overview.Facts]
	catalog reading[*sizing.Catalog]
	plan    reading[*v1alpha1.CapacityPlan]
}

func newSource(s *source) *source {
	for _, a := range []*attempts{
		&s.state.attempts, &s.samples.attempts, &s.recent.attempts, &s.surplus.attempts, &s.stored.attempts, &s.own.attempts, &s.catalog.attempts, &s.plan.attempts,
	} {
		a.log = s.log
	}
	return s
}

// reading is a value that a goroutine makes, so that no page waits for it for long.
type reading[T any] struct {
	attempts
	value T
}

// attempts is what readings of all types have in common. The compiler makes its methods once, and those of reading for each type.
type attempts struct {
	log     *slog.Logger
	mu      sync.Mutex
	at      time.Time // end of the last attempt
	read    time.Time // of the value
	err     error     // of the last attempt
	took    time.Duration
	running chan struct{}
}

// freshness is how old a value may be.
type freshness struct {
	age      time.Duration // a value older than this is made again
	wait     time.Duration // for a value older than this, because nobody has looked since, a caller waits; 0 means stale
	stale    time.Duration // a value older than this is not shown while the next one is made
	patience time.Duration // how long a caller waits
	limit    time.Duration // of the time for making it; 0 means readTimeout
	rest     int           // the next value is made after this many times the time that the last one took, if that is later than age
}

// How fresh the values are that pages show.
var (
	freshState = freshness{age: 5 * time.Second, stale: 30 * time.Second, patience: time.Minute}
	freshUsage = freshness{age: time.Minute, wait: 2 * time.Minute, stale: 5 * time.Minute, patience: 2 * time.Second}
	// No page waits for the surplus: it takes longer than the rest.
	freshSurplus = freshness{age: time.Minute, stale: 15 * time.Minute}

	// The stored usage of a large cluster is many megabytes, so it is read more rarely the longer that takes.
	freshStored  = freshness{age: time.Minute, wait: 2 * time.Minute, stale: 5 * time.Hour, patience: 3 * time.Second, limit: 5 * time.Minute, rest: 50}
	freshPlan    = freshness{age: time.Minute, stale: 10 * time.Minute, patience: 2 * time.Second}
	freshCatalog = freshness{age: time.Minute, stale: 10 * time.Minute, patience: 3 * time.Second}

	freshHealth = freshness{age: 10 * time.Second, wait: 30 * time.Second, stale: 2 * time.Minute, patience: 2 * time.Second}
	freshEvent  = freshness{age: 30 * time.Second, wait: time.Minute, stale: 5 * time.Minute, patience: 2 * time.Second}
)

// readTimeout bounds one read of usage or events.
const readTimeout = 10 * time.Second

// get returns the last value, and starts to make a new one if it is too old. It waits only if there is none that may be shown. ok is
// false if there is still none.
func (r *reading[T]) get(ctx context.Context, f freshness, read func(context.Context) (T, error)) (value T, ok bool, err error) {
	r.refresh(ctx, f, func(ctx context.Context) (func(), error) {
		made, err := read(ctx)
		return func() { r.value = made }, err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.usable(f) {
		return value, false, r.err
	}
	return r.value, true, r.err
}

// peek returns the last value without making a new one.
func (r *reading[T]) peek() (value T, ok bool, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, !r.read.IsZero(), r.read
}

// usable reports whether the last value may be shown. The mutex is held.
func (r *attempts) usable(f freshness) bool { return !r.read.IsZero() && time.Since(r.read) < f.stale }

// refresh starts to make a new value if the last one is too old, and waits for it if the last one is much older or may not be shown. read
// returns the function that stores the new value.
func (r *attempts) refresh(ctx context.Context, f freshness, read func(context.Context) (func(), error)) {
	r.mu.Lock()
	if r.running == nil && time.Since(r.at) >= max(f.age, time.Duration(f.rest)*r.took) {
		r.start(ctx, cmp.Or(f.limit, readTimeout), read)
	}
	running := r.running
	idle := max(cmp.Or(f.wait, f.stale), 2*time.Duration(f.rest)*r.took)
	wanted := r.at.IsZero() || time.Since(r.at) >= min(idle, f.stale) // otherwise the attempt before has just failed, or the value is young
	r.mu.Unlock()
	if running == nil || !wanted {
		return
	}
	wait := time.NewTimer(f.patience)
	defer wait.Stop()
	select {
	case <-running:
	case <-wait.C:
	case <-ctx.Done():
	}
}

// start makes a new value. The mutex is held.
func (r *attempts) start(ctx context.Context, limit time.Duration, read func(context.Context) (func(), error)) {
	done := make(chan struct{})
	r.running = done
	began := time.Now()
	go func() {
		var store func()
		var err error
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause)
				r.log.Error("Failed to read data for the web page", slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			defer close(done)
			r.at = time.Now()
			r.took = r.at.Sub(began)
			r.err = err
			r.running = nil
			if err == nil {
				store()
				r.read = r.at
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		store, err = read(ctx)
	}()
}

// State implements web.Source. While a new state is made, pages show the one before.
func (s *source) State(ctx context.Context) *web.State {
	state, ok, _ := s.state.get(ctx, freshState, s.compute)
	if !ok {
		return &web.State{Overview: &overview.Overview{At: time.Now()}, Pending: true, Problems: []string{"The overview is not computed yet. Try again."}}
	}
	return state
}

// prefetch starts the readings that compute waits for, so that they run at the same time.
func (s *source) prefetch(ctx context.Context) {
	ended, cancel := context.WithCancel(ctx)
	cancel() // do not wait
	_, _, _ = s.samples.get(ended, freshUsage, s.usage)
	_, _, _ = s.own.get(ended, freshHealth, s.registrations)
	_, _, _ = s.plan.get(ended, freshPlan, s.readPlan)
}

func (s *source) readPlan(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
	if s.plans == nil {
		return nil, nil
	}
	plan, err := s.plans(ctx)
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrUnsupported) {
		return nil, nil // the recommender that writes it does not run, or is older
	}
	return plan, err
}

// addPlan adds the CapacityPlan, or why it is not known. Pools have its names and its capacity.
func (s *source) addPlan(ctx context.Context, state *web.State, in *overview.World) {
	plan, known, err := s.plan.get(ctx, freshPlan, s.readPlan)
	if plan != nil {
		settings, allocatable := capacityplan.Settings(&plan.Spec)
		state.Plan, in.Rules, in.WholeNodes = &plan.Status, settings.Rules, !allocatable
	}
	switch {
	case known || err == nil: // it is known, or not read yet
	case errors.Is(err, kube.ErrForbidden):
		state.PlanProblem = "podfit may not read the CapacityPlan. It needs the right to get capacityplans.podfit.dev, which the role view has."
	default:
		state.PlanProblem = "The CapacityPlan is not known: " + err.Error()
	}
}

func (s *source) compute(ctx context.Context) (*web.State, error) {
	const allPatience = 4 * time.Second // how long a page waits for all readings together
	ctx, cancel := context.WithTimeout(ctx, allPatience)
	defer cancel()
	s.prefetch(ctx)
	used, _, usageErr := s.samples.get(ctx, freshUsage, s.usage)
	now := time.Now()
	state := &web.State{Excluded: s.excluded}
	s.health(state, now)
	switch {
	case apierrors.IsForbidden(usageErr):
		state.Problems = append(state.Problems, "Current usage is not known: podfit may not read it from the Metrics API.")
	case usageErr != nil:
		state.Problems = append(state.Problems, "Current usage is not known: the Metrics API did not answer.")
	}
	in := overview.World{
		Now: now, Snapshot: s.world.Snapshot(), Nodes: s.world.Nodes(), Samples: used.Samples, StartupBoost: s.startupBoost,
		Selectors: s.world.Selectors(), Tolerations: s.world.Tolerations(),
		NoAutoscalers: slices.ContainsFunc(s.world.Health(), func(f feed.State) bool { return f.Resource == watcher.AutoscalersFeed && !f.Synced }),
	}
	if state.NoPods {
		in.NoPods = "podfit may not list its pods"
	}
	in.Excluded = s.excludedOf(in.Snapshot)
	s.addEvidence(ctx, state, &in)
	s.addPlan(ctx, state, &in)
	state.Overview = overview.Of(&in)
	surplus, _, priceErr := s.surplus.get(ctx, freshSurplus, func(context.Context) (*overview.Surplus, error) { return s.review(in, state.Overview) })
	state.Surplus = surplus
	if priceErr != nil {
		state.Causes = append(state.Causes, "Prices are not known: "+priceErr.Error())
	}
	state.Custom = s.customProfiles(ctx)
	s.addActivity(ctx, state)
	state.Activity = slices.DeleteFunc(slices.Clone(state.Activity), func(e overview.Entry) bool { return process.MatchesNamespace(s.excluded, e.Pod.Namespace) })
	s.addHealth(ctx, &state.Health, now)
	return state, nil
}

// excludedOf returns the namespaces of a snapshot that are not shown.
func (s *source) excludedOf(snapshot *cluster.Snapshot) map[string]bool {
	if len(s.excluded) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, a := range snapshot.Autoscalers {
		out[a.Namespace] = true
	}
	for _, p := range snapshot.Pods {
		out[p.Namespace] = true
	}
	maps.DeleteFunc(out, func(namespace string, _ bool) bool { return !process.MatchesNamespace(s.excluded, namespace) })
	return out
}

func (s *source) customProfiles(ctx context.Context) []web.CustomProfile {
	names, _ := s.world.ProfileNames()
	if len(names) == 0 {
		return nil
	}
	out := make([]web.CustomProfile, len(names))
	catalog, ok, _ := s.catalog.get(ctx, freshCatalog, s.archive.Catalog)
	for i, name := range names {
		out[i].Name = name
		if !ok {
			continue
		}
		if choice := catalog.Of(&cluster.Autoscaler{Recommender: name}); choice.Usable && choice.Edition.Number > 0 { // 0: built-in
			out[i] = web.CustomProfile{Profile: choice.Profile, Known: true}
		}
	}
	return out
}

// addEvidence adds what the stored usage shows. Without it nothing is recommended, and only the risks are known that pods show now.
func (s *source) addEvidence(ctx context.Context, state *web.State, in *overview.World) {
	const unjudged = "older OOM kills, peaks and what could be given back are not known" // what is not known without the stored usage
	if !state.Complete() || len(in.Snapshot.Autoscalers) == 0 {
		return // workloads that are not known yet would stay without evidence
	}
	stored, ok, err := s.stored.get(ctx, freshStored, func(ctx context.Context) (storedUsage, error) { return s.evidence(ctx, in) })
	cause := strings.Join(stored.problems, "; ")
	switch {
	case ok:
		in.Evidence = stored.evidence
	case err != nil:
		in.Unread = review.UnreadUsage
		cause = err.Error()
	default:
		state.Problems = append(state.Problems, "The stored usage is still being read. Until then, "+unjudged+".")
	}
	if cause != "" {
		state.Causes = []string{"The stored usage could not be read: " + cause}
		state.Problems = append(state.Problems, "The stored usage could not be read, so "+unjudged+".")
	}
}

// review returns what could be given back, with prices if there are some.
func (s *source) review(in overview.World, o *overview.Overview) (*overview.Surplus, error) {
	if s.prices != "" {
		prices, err := price.ReadFile(s.prices, in.Nodes)
		if err != nil {
			return nil, err
		}
		in.Prices = prices
	}
	in.AllPods = s.allPods
	return overview.SurplusOf(&in, o), nil
}

// health sets which watches have not delivered yet or are out of date.
func (s *source) health(state *web.State, now time.Time) {
	const relisted = time.Minute // the time in which a collection is listed again that podfit may list but not watch
	var failed, silent []string
	var since time.Time
	for _, f := range s.world.Health() {
		refused := !f.Synced && (f.Forbidden || apierrors.IsForbidden(f.Err)) // the second of what podfit needs
		switch {
		case f.Forbidden && !f.Synced, refused && f.Resource == "pods":
		case !f.Synced: // without owners, it is not known to which workload pods belong
			state.Loading = append(state.Loading, f.Resource)
		case state.Contact.IsZero() || f.LastResponse.Before(state.Contact):
			state.Contact = f.LastResponse
		}
		switch {
		case refused:
			state.NoPods = state.NoPods || f.Resource == "pods"
			state.Problems = append(state.Problems, fmt.Sprintf("podfit may not list %s, so they are not shown.", f.Resource))
		case f.Forbidden && now.Sub(f.LastResponse) <= relisted:
			state.Problems = append(state.Problems, fmt.Sprintf("podfit may list %s but not watch them, so changes are shown after some seconds.", f.Resource))
		case f.Forbidden:
			state.Problems = append(state.Problems, fmt.Sprintf("podfit may no longer list %s. Those of %s UTC are shown.", f.Resource, f.LastResponse.UTC().Format("2 Jan, 15:04:05")))
		case f.Err != nil && f.Synced:
			failed = append(failed, f.Resource)
			since = cluster.Earliest(since, f.FailedSince)
		case f.Synced && f.IsStale(now):
			silent = append(silent, f.Resource)
		}
	}
	if len(failed) > 0 {
		state.Problems = append(state.Problems, fmt.Sprintf("The watch of %s has failed since %s UTC. What is shown may be out of date.", wording.List(failed, 3), since.UTC().Format("2 Jan, 15:04:05")))
	}
	if len(silent) > 0 {
		state.Problems = append(state.Problems, fmt.Sprintf("The watch of %s is out of date.", wording.List(silent, 3)))
	}
}

// addActivity sets what podfit did: decisions of this process, or else events.
func (s *source) addActivity(ctx context.Context, state *web.State) {
	if s.journal != nil {
		state.Activity, state.ActivitySince = s.journal.entries()
		state.ActivityFrom = "the decisions of this process since its start"
		if !state.ActivitySince.IsZero() {
			return
		}
	}
	entries, known, err := s.recent.get(ctx, freshEvent, s.events)
	if err != nil {
		state.Problems = append(state.Problems, "Events could not be read, so the activity is not known.")
	}
	state.Activity = entries
	state.NoActivity = !known
	state.ActivityFrom = "the events of the updater, which the API server keeps for an hour by default"
}

// Namespaces returns the namespaces that have workloads. The list is not complete while the cluster is still read.
func (s *source) Namespaces() (names []string, complete bool) {
	state := s.State(context.Background())
	return state.Overview.Namespaces(), state.Complete()
}

// History implements web.Source. It reads the stored usage, and refines it with that of Prometheus if one is configured.
func (s *source) History(ctx context.Context, row *overview.Row) (overview.History, error) {
	out, err := s.storedHistory(ctx, row)
	if s.recordings != nil {
		s.recordings.refine(ctx, row, s.world.Snapshot().PodsOf(row.Workload), &out)
	}
	return out, err
}

// storedHistory reads the hourly peaks of the UsageHistory, and the histograms of the checkpoints where there are none.
func (s *source) storedHistory(ctx context.Context, row *overview.Row) (overview.History, error) {
	var out overview.History
	if row.VPA == "" {
		out.Requests = overview.RequestSteps(s.world.Snapshot().PodsOf(row.Workload), &ledger.State{})
		return out, nil
	}
	stored, err := s.store.Histories(ctx, row.Workload)
	if err != nil {
		return out, err
	}
	from := checkpoint.Stored{Checkpoints: make(map[checkpoint.Key]usage.Checkpoint), Histories: map[cluster.Workload][]usage.History{row.Workload: stored}}
	for _, of := range row.Containers {
		c := overview.ContainerHistory{Name: of.Container}
		for j := range stored {
			if stored[j].Container == c.Name {
				addPeaks(&c, &stored[j], s.log)
			}
		}
		key := checkpoint.Key{Autoscaler: cluster.Key{Namespace: row.Workload.Namespace, Name: row.VPA}, Container: c.Name}
		p, found, err := s.store.Checkpoint(ctx, key)
		if err != nil {
			return out, err
		}
		if found {
			from.Checkpoints[key] = p
			addHistograms(&c, &p)
		}
		out.Containers = append(out.Containers, c)
	}
	record, _, err := s.store.State(ctx, row.Workload)
	if err != nil {
		s.log.Debug("Cannot read the UpdateState of a workload for the web page", slog.String("workload", row.Workload.String()), slog.Any("error", err))
	}
	out.Requests = overview.RequestSteps(s.world.Snapshot().PodsOf(row.Workload), &record)
	if out.Profiles, err = s.compare(ctx, row, from); err != nil {
		s.log.Debug("Cannot compare the sizing profiles of a workload for the web page", slog.String("workload", row.Workload.String()), slog.Any("error", err))
	}
	return out, nil
}

// addPeaks adds the hourly peaks of stored model state.
func addPeaks(c *overview.ContainerHistory, h *usage.History, log *slog.Logger) {
	cpu, memory, _, err := recommend.StoredPeaks(h.Form, h.Data)
	if err != nil {
		log.Debug("Cannot decode the stored hourly peaks of a container for the web page", slog.String("container", c.Name), slog.Any("error", err))
		return
	}
	c.CPU, c.Memory = overview.PeaksOf(&cpu, chartDays), overview.PeaksOf(&memory, chartDays)
	c.Last = h.LastSample
}

// addHistograms adds the histograms of the checkpoint of a container, where it has no peaks.
func addHistograms(c *overview.ContainerHistory, p *usage.Checkpoint) {
	const halfLife = 24 * time.Hour // it has no effect on the shares
	if len(c.CPU) > 0 && len(c.Memory) > 0 {
		return
	}
	if h, err := histogram.Load(histogram.CPU, halfLife, p.CPU); err == nil && len(c.CPU) == 0 {
		c.CPUBuckets = overview.BucketsOf(&h)
	}
	if h, err := histogram.Load(histogram.Memory, halfLife, p.Memory); err == nil && len(c.Memory) == 0 {
		c.MemoryBuckets = overview.BucketsOf(&h)
	}
	c.First = p.FirstSample
	c.Last = p.LastSample
	c.Samples = p.Samples
}
