// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/prom"
)

// backfillBudget is how long a term of leadership may read history. Two namespaces in a row of which a query times out end the
// backfill before: one alone may be too large, and must not keep others from their history.
const backfillBudget = 30 * time.Minute

// backfillGrace is how long the first pass of a term waits for history.
const backfillGrace = 15 * time.Second

// backfillSlow is how many namespaces in a row may be too slow to read until the others are not asked for.
const backfillSlow = 2

var errOthersSlow = errors.New("it was not asked for, because queries of other namespaces timed out")

// backfillTries is how often a namespace is read, where Prometheus answers at once that it cannot.
const backfillTries = 3

// backfill reads usage history from Prometheus beside the recommender's passes. It lives as long as the process: what one term of
// leadership has read, the next one does not read again.
//
//	              start          history of a namespace arrives        or queries time out, or the budget is spent
//	(not begun) ────────▶ pending ─────────────────────────────▶ done
//	                         │                                                    │
//	                         └──────────────────────────────────────▶ incomplete ◀┘   until the next term, or as long as
//	                                                                                  history goes back
//
// While the history of an autoscaler's namespace is pending, its recommendation does not decrease, and where there is none
// none is made; nor does it decrease for a day after it turned out to be incomplete.
type backfill struct {
	source    history
	selectors selecting
	budget    time.Duration
	log       *slog.Logger
	metrics   *Metrics

	// The recommender's loop owns these.
	missing   map[string][]span // what is not known yet of each namespace that was asked for, the oldest first
	first     time.Time         // when the first term began
	learntTo  time.Time         // until when usage is known, or missing has what is not; no monotonic clock, which stops while a machine is suspended
	asked     map[cluster.Workload]bool
	state     map[string]backfillState  // by namespace
	abandoned bool                      // no history is read in this term
	failed    map[string]incompleteness // of the namespaces that are incomplete

	mu      sync.Mutex // guards what the goroutine that reads hands over
	arrived []arrival
}

// A span is a time of which history is to be read.
type span struct{ from, to time.Time }

// An incompleteness is why, and since when, the history of a namespace is incomplete. Each namespace is told its own: an error may name
// the namespace that was asked for.
type incompleteness struct {
	at    time.Time
	cause string
}

type backfillState int

const (
	backfillPending backfillState = iota
	backfillIncomplete
	backfillDone
)

func (s backfillState) String() string { return [...]string{"pending", "incomplete", "done"}[s] }

// An arrival is what was read of a namespace: all of it, or what came before an error.
type arrival struct {
	namespace string
	learnt    *usage.Store // nil where nothing was tried
	missing   []span       // what is still not known
	err       error
}

func newBackfill(source history, selectors selecting, m *Metrics, log *slog.Logger) *backfill {
	return &backfill{
		source: source, selectors: selectors, budget: backfillBudget, log: log, metrics: m,
		missing: map[string][]span{}, asked: map[cluster.Workload]bool{}, state: map[string]backfillState{},
		failed: map[string]incompleteness{},
	}
}

// startBackfill begins to read the history that is not known, of all namespaces with autoscalers that are served. What it returns
// is closed at the end of that, which comes soon after ctx ends.
func (r *recommender) startBackfill(ctx context.Context, now time.Time) <-chan struct{} {
	done := make(chan struct{})
	snapshot := r.world.Snapshot()
	r.profiles.read(ctx)
	v := r.look(snapshot)
	ours := v.served
	r.usageStore.Tick(now)
	r.configure(now, v)
	r.workloads.SkipRestore()
	r.track(snapshot)
	jobs := r.backfill.plan(now, ours)
	if len(jobs) == 0 {
		close(done)
		return done
	}
	p := &past{pods: make(map[cluster.Key]*cluster.Pod, len(snapshot.Pods)), targets: map[string]*targets{}}
	for _, pod := range snapshot.Pods {
		p.pods[pod.Key] = pod
	}
	for i := range jobs {
		j := &jobs[i]
		j.book = r.usageStore.Fork(func(w cluster.Workload) bool { return w.Namespace == j.namespace })
		j.sized = func(w cluster.Workload) bool { return r.backfill.asked[w] }
	}
	go func() {
		defer close(done)
		r.backfill.run(ctx, now, p, targetsOf(ours), jobs)
	}()
	return done
}

// targetsOf returns the autoscalers of different targets.
func targetsOf(as []*cluster.Autoscaler) []*cluster.Autoscaler {
	seen := make(map[cluster.Workload]bool, len(as))
	return slices.DeleteFunc(slices.Clone(as), func(a *cluster.Autoscaler) bool {
		again := seen[a.Target] || a.Target.IsZero()
		seen[a.Target] = true
		return again
	})
}

// A job is to read what is missing of a namespace.
type job struct {
	namespace string
	missing   []span
	book      *usage.Store
	sized     func(cluster.Workload) bool
}

// plan returns what is to be read in a term that begins now.
func (f *backfill) plan(now time.Time, ours []*cluster.Autoscaler) []job {
	now = now.Round(0)
	oldest := now.Add(-f.source.Length())
	if f.first.IsZero() {
		f.first = now
	}
	for _, ns := range namespacesOf(ours) {
		if _, known := f.missing[ns]; !known {
			f.missing[ns] = []span{{oldest, f.first}}
		}
	}
	for ns, spans := range f.missing {
		if !f.learntTo.IsZero() {
			spans = append(spans, span{f.learntTo, now})
		}
		for i := range spans {
			if spans[i].from.Before(oldest) {
				spans[i].from = oldest
			}
		}
		f.missing[ns] = slices.DeleteFunc(spans, func(s span) bool { return s.to.Sub(s.from) < backfillGap })
	}
	f.learntTo = now
	clear(f.state)
	clear(f.asked)
	clear(f.failed)
	f.arrived, f.abandoned = nil, false
	var jobs []job
	for _, ns := range namespacesOf(ours) {
		f.state[ns] = backfillDone
		if spans := f.missing[ns]; len(spans) > 0 {
			f.state[ns] = backfillPending
			jobs = append(jobs, job{namespace: ns, missing: slices.Clone(spans)})
		}
	}
	for _, a := range ours {
		f.asked[a.Target] = true
	}
	f.publish()
	return jobs
}

// abandon notes that no history is read in a term, because of a defect of podfit, and returns a closed channel.
func (f *backfill) abandon(now time.Time, namespaces []string) <-chan struct{} {
	f.abandoned = true
	clear(f.state)
	for _, ns := range namespaces {
		f.state[ns] = backfillIncomplete
		f.fail(now, ns, errInternal)
	}
	f.publish()
	done := make(chan struct{})
	close(done)
	return done
}

// backfillGap is the shortest time without samples that is worth a query. Who loses the lease for a moment does not ask.
const backfillGap = 30 * time.Minute

func namespacesOf(as []*cluster.Autoscaler) []string {
	var out []string
	for _, a := range as {
		out = append(out, a.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// run reads one namespace after the other. It is the goroutine beside the passes, and owns the books of its jobs until it has
// handed them over.
func (f *backfill) run(ctx context.Context, now time.Time, p *past, targets []*cluster.Autoscaler, jobs []job) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	f.log.Info("Reading usage history from Prometheus; recommendations do not decrease until it has arrived",
		slog.Int("namespaces", len(jobs)), slog.String("budget", f.budget.String()))
	var err error
	if p.labels, err = f.source.PodLabels(ctx, now); err != nil && !prom.IsTimeout(err) {
		f.log.Warn("Cannot read the labels that pods had; pods that have gone are known by their names alone", slog.Any("error", err))
		err = nil
	}
	if err == nil {
		f.targets(ctx, p, targets)
	}
	slow := 0 // namespaces in a row
	for i := range jobs {
		j := &jobs[i]
		if err == nil {
			err = ctx.Err()
		}
		if err != nil { // it has ended for all that is left
			f.arrive(arrival{namespace: j.namespace, missing: j.missing, err: err})
			continue
		}
		before := slices.Clone(j.missing)
		jobErr := f.guarded(j.namespace, func() error { return f.read(ctx, p, j) })
		if errors.Is(jobErr, errInternal) {
			j.book, j.missing = nil, before
		}
		f.arrive(arrival{j.namespace, j.book, j.missing, jobErr})
		if !prom.IsTimeout(jobErr) {
			slow = 0
		} else if slow++; slow == backfillSlow {
			err = errOthersSlow
		}
	}
}

var errInternal = errors.New("internal error")

// guarded does something for one object. A panic is a defect of podfit: it is logged, and becomes an error.
func (f *backfill) guarded(object string, do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.log.Error("Skipped an object because of an internal error", slog.String("object", object), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			err = fmt.Errorf("%w: %v", errInternal, cause)
		}
	}()
	return do()
}

// targets reads how the pods of the autoscalers' workloads can be known. After a request that timed out no other is sent.
func (f *backfill) targets(ctx context.Context, p *past, as []*cluster.Autoscaler) {
	answers := true
	for _, a := range as {
		if ctx.Err() != nil {
			return
		}
		selector := labels.Nothing()
		if answers {
			_ = f.guarded(a.Key.String(), func() error { // logged there
				asked, cancel := context.WithTimeout(ctx, requestTimeout)
				defer cancel()
				s, err := f.selectors.Selector(asked, a.Target)
				if err != nil {
					answers = asked.Err() == nil
					f.log.Warn("Cannot read a selector; pods of the workload that have gone are known by their names alone",
						slog.String("vpa", a.Key.String()), slog.Any("error", err))
					return nil
				}
				selector = s
				return nil
			})
		}
		p.add(target{a.Target, selector, podName(a.Target)})
	}
}

func (f *backfill) arrive(a arrival) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived = append(f.arrived, a)
}

// read reads what is missing of one namespace into the job's book, and leaves in the job what is missing then.
func (f *backfill) read(ctx context.Context, p *past, j *job) error {
	for _, pod := range p.pods {
		if pod.Namespace == j.namespace {
			j.book.Track(pod)
		}
	}
	r := reader{past: p, job: j, stand: map[instance]cluster.Key{}}
	var err error
	for try := range backfillTries {
		if err = r.read(ctx, f.source); err == nil || ctx.Err() != nil || prom.IsTimeout(err) {
			break
		}
		f.log.Warn("Cannot read the usage history of a namespace", slog.String("namespace", j.namespace), slog.Int("try", try+1), slog.Any("error", err))
	}
	r.end()
	f.log.Info("Read usage history", slog.String("namespace", j.namespace), slog.Int("samples", r.samples), slog.Int("taken", r.taken), slog.Bool("complete", err == nil))
	return err
}

// A reader tells a book the samples of a namespace. A pod that has gone comes back for its time, one for each of its
// containers, because the rest of it is not known any more.
type reader struct {
	past           *past
	job            *job
	stand          map[instance]cluster.Key // the pod that stands for it in the book; zero: of no interest
	samples, taken int
}

type instance struct {
	pod       cluster.Key
	container string
}

func (r *reader) read(ctx context.Context, source history) error {
	j := r.job
	for len(j.missing) > 0 {
		s := &j.missing[0]
		last := s.from
		err := source.HistorySince(ctx, j.namespace, s.from, s.to, func(x usage.Sample) {
			if !x.At.Before(s.from) && !x.At.After(s.to) {
				last = x.At
				r.tell(x)
			}
		})
		if err != nil {
			if last.After(s.from) {
				s.from = last.Add(1)
			}
			return err
		}
		j.missing = j.missing[1:]
	}
	return nil
}

func (r *reader) tell(s usage.Sample) {
	r.samples++
	in := instance{s.Pod, s.Container}
	key, known := r.stand[in]
	if !known {
		key = r.standIn(s.Pod, s.Container)
		r.stand[in] = key
	}
	if key == (cluster.Key{}) {
		return
	}
	s.Pod = key
	if !r.job.book.Observe(s).Empty() {
		r.taken++
	}
}

// standIn returns the pod in the book that takes the samples of a container.
func (r *reader) standIn(pod cluster.Key, container string) cluster.Key {
	book := r.job.book
	if book.Tracked(pod) {
		return pod
	}
	w := r.past.workload(pod)
	if w.IsZero() || !r.job.sized(w) {
		return cluster.Key{}
	}
	key := cluster.Key{Namespace: pod.Namespace, Name: pod.Name + "/" + container} // no pod can have this name
	book.Track(&cluster.Pod{
		Key: key, UID: key.String(), Top: w, Phase: cluster.Succeeded, Containers: []cluster.Container{{Name: container}},
	})
	return key
}

// end takes the pods out of the book that have gone.
func (r *reader) end() {
	for in, key := range r.stand {
		if key != in.pod && key != (cluster.Key{}) {
			r.job.book.Forget(key)
		}
	}
}

// learnt notes that the pass that began at a time has learnt from live usage, if it has. What is not known because the Metrics
// API was away is for the next term to read.
func (r *recommender) learnt(ctx context.Context, now time.Time) {
	if r.backfill != nil && r.outage == nil && ctx.Err() == nil {
		r.backfill.learntTo = now.Round(0)
	}
}

// mergeHistory adds the history that has arrived since the last pass.
func (r *recommender) mergeHistory(now time.Time) {
	f := r.backfill
	if f == nil {
		return
	}
	f.mu.Lock()
	arrived := f.arrived
	f.arrived = nil
	f.mu.Unlock()
	for _, a := range arrived {
		if a.learnt != nil {
			r.usageStore.Absorb(a.learnt)
		}
		f.missing[a.namespace], f.state[a.namespace] = a.missing, backfillDone
		if a.err != nil {
			f.state[a.namespace] = backfillIncomplete
			f.fail(now, a.namespace, a.err)
			continue
		}
		r.workloads.EndHolds(a.namespace)
	}
	if len(arrived) > 0 {
		f.publish()
	}
}

// fail notes why the history of a namespace is incomplete. The first failure of a term is logged.
func (f *backfill) fail(now time.Time, namespace string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	cause := err.Error()
	if prom.IsTimeout(err) {
		cause = "a query timed out, or the time for all of them was over: " + cause
	}
	if len(f.failed) == 0 {
		f.log.Warn("Usage history is incomplete; recommendations do not decrease for a day and are based on what is used from now on", slog.String("namespace", namespace),
			slog.String("cause", cause), slog.String("remedy", "check that Prometheus answers at --prometheus-address, then restart the recommender; --history-length and --history-resolution make queries smaller"))
	}
	f.failed[namespace] = incompleteness{now, shortened(cause)}
}

// publish says how many namespaces there are in each state.
func (f *backfill) publish() {
	count := map[backfillState]int{}
	for _, s := range f.state {
		count[s]++
	}
	for _, s := range []backfillState{backfillPending, backfillIncomplete, backfillDone} {
		f.metrics.backfill.WithLabelValues(s.String()).Set(float64(count[s]))
	}
}

// of returns the state of the history of an autoscaler's target. Of what has come since the term began there is none to wait for.
func (f *backfill) of(a *cluster.Autoscaler, now time.Time) backfillState {
	if f == nil || !f.asked[a.Target] && !f.abandoned {
		return backfillDone
	}
	s, known := f.state[a.Namespace]
	if !known {
		return backfillDone // it has come since
	}
	if s == backfillIncomplete && now.Sub(f.failed[a.Namespace].at) >= f.source.Length() {
		return backfillDone // live usage covers all that history would have told
	}
	return s
}

// holds reports whether a recommendation must not decrease because history is missing.
func (f *backfill) holds(a *cluster.Autoscaler, now time.Time) bool {
	s := f.of(a, now)
	return s == backfillPending || s == backfillIncomplete && now.Sub(f.failed[a.Namespace].at) < sizing.ResetHold
}

// sayHistory says whether history is missing that a recommendation should be based on.
func (r *recommender) sayHistory(adv *advice, now time.Time) {
	switch r.backfill.of(adv.to, now) {
	case backfillPending:
		adv.say(v1alpha1.ConditionHistoryIncomplete, watcher.True, v1alpha1.ReasonBackfillRunning,
			"Usage history is being read from Prometheus. Until it has arrived, the recommendation does not decrease, and none is made where there is none yet.")
	case backfillIncomplete:
		adv.say(v1alpha1.ConditionHistoryIncomplete, watcher.True, v1alpha1.ReasonBackfillFailed, fmt.Sprintf(
			"Usage history could not be read from Prometheus: %s. The recommendation is based on what was used since %s; it does not decrease for a day. "+
				"Check that Prometheus answers at --prometheus-address, then restart the recommender.",
			r.backfill.failed[adv.to.Namespace].cause, r.backfill.first.UTC().Format(time.RFC3339)))
	default:
		adv.say(v1alpha1.ConditionHistoryIncomplete, watcher.Removed, "", "")
	}
}

// shortened returns as much of a text as a condition should quote.
func shortened(text string) string {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
