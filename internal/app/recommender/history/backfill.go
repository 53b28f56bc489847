// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/prom"
)

// backfillBudget is the maximum time for reading history in one term of leadership. The backfill ends earlier if queries of
// backfillSlow namespaces in a row time out. One slow namespace does not end it, because that namespace may just be too large.
const backfillBudget = 30 * time.Minute

// selectorTimeout is the timeout of the request for the selector of a workload.
const selectorTimeout = 30 * time.Second

// backfillSlow is the number of namespaces in a row whose queries time out after which no further namespace is read.
const backfillSlow = 2

// backfillAttempts is how often the history of a namespace is read if Prometheus answers with an error.
const backfillAttempts = 3

// backfillGap is the shortest time without samples that is read from Prometheus. A short loss of the lease causes no query.
const backfillGap = 30 * time.Minute

var errOthersSlow = errors.New("the namespace was not read, because queries of other namespaces timed out")

// A Backfill reads usage history from Prometheus, in parallel to the passes of the recommender. It exists as long as the process:
// history that was read in one term of leadership is not read again in the next.
//
//	          start of a term          history of the namespace is read
//	(no state) ────────────▶ pending ──────────────────────────────────▶ done
//	                            │                                          ▲
//	                            │ a query failed or timed out,             │ live usage covers
//	                            │ or the budget is spent                   │ the same time
//	                            └──────────────▶ incomplete ───────────────┘
//
// Each new term starts again with pending for namespaces of which history is missing. While the history of a VPA's namespace is
// pending, its recommendation does not decrease, and a VPA without a recommendation gets none. After a failure its
// recommendation does not decrease for one day (sizing.ResetHold).
//
// The recommender's goroutine owns it and calls all exported methods. A nil Backfill holds nothing: State returns BackfillDone.
type Backfill struct {
	Peaks bool // read the peak memory of CronJobs

	source   source
	selector selectorReader
	budget   time.Duration
	log      *slog.Logger
	metrics  *Metrics

	// Fields that the recommender's goroutine owns.
	missing   map[string][]span // by namespace: the times without samples, the oldest first
	firstTerm time.Time         // start of the first term
	// observedUntil is the time until which samples exist or missing lists the gaps. It has no monotonic clock reading, because
	// the monotonic clock stops while a machine is suspended.
	observedUntil time.Time
	requested     map[cluster.Workload]bool  // workloads whose history was requested at the start of the term
	state         map[string]BackfillState   // by namespace
	abandoned     bool                       // no history is read in this term
	failed        map[string]backfillFailure // by namespace whose state is incomplete

	mu       sync.Mutex // guards finished, which the reading goroutine extends
	finished []backfillJob
}

// A span is a period of which history is to be read.
type span struct{ from, to time.Time }

// A backfillFailure is the time and the cause of a failed backfill of a namespace. It is kept per namespace, because the error may
// contain the name of the namespace, which users of another namespace must not see.
type backfillFailure struct {
	at    time.Time
	cause string
}

// A BackfillState is the state of the history of a namespace. See Backfill.
type BackfillState int

// The states of the history of a namespace.
const (
	BackfillPending BackfillState = iota
	BackfillIncomplete
	BackfillDone
)

func (s BackfillState) String() string { return [...]string{"pending", "incomplete", "done"}[s] }

// A selectorReader returns the selector of the pods of a workload.
type selectorReader func(context.Context, cluster.Workload) (labels.Selector, error)

// NewBackfill returns a Backfill that has not read anything. It reads samples from a source such as prom.Client.
func NewBackfill(from source, selector selectorReader, m *Metrics, log *slog.Logger) *Backfill {
	return &Backfill{
		source: from, selector: selector, budget: backfillBudget, log: log, metrics: m,
		missing: map[string][]span{}, requested: map[cluster.Workload]bool{}, state: map[string]BackfillState{},
		failed: map[string]backfillFailure{},
	}
}

// Start starts to read the missing history of all namespaces of the served VPAs, into copies of the store, which tracks the pods.
// The returned channel is closed when reading has ended, which is soon after ctx ends. Merge adds what has been read to the store.
func (f *Backfill) Start(ctx context.Context, now time.Time, store *usage.Store, pods []*cluster.Pod, served []*cluster.Autoscaler) <-chan struct{} {
	done := make(chan struct{})
	jobs := f.plan(now, served)
	if len(jobs) == 0 {
		close(done)
		return done
	}
	owners := &ownerResolver{pods: make(map[cluster.Key]*cluster.Pod, len(pods)), candidates: map[string]*candidateWorkloads{}}
	for _, pod := range pods {
		owners.pods[pod.Key] = pod
	}
	for i := range jobs {
		jobs[i].store = store.Fork(jobs[i].namespace)
	}
	go func() {
		defer close(done)
		f.run(ctx, now, owners, uniqueTargets(served), jobs)
	}()
	return done
}

// uniqueTargets returns the first VPA of each target workload. It omits VPAs without a target.
func uniqueTargets(autoscalers []*cluster.Autoscaler) []*cluster.Autoscaler {
	seen := make(map[cluster.Workload]bool, len(autoscalers))
	return slices.DeleteFunc(slices.Clone(autoscalers), func(a *cluster.Autoscaler) bool {
		omit := seen[a.Target] || a.Target.IsZero()
		seen[a.Target] = true
		return omit
	})
}

// A backfillJob is to read the missing history of a namespace into a store of its own. When it has ended, the store has all of it, or the
// part before an error.
type backfillJob struct {
	namespace string
	missing   []span                    // history that is still missing
	store     *usage.Store              // nil if nothing was read
	requested map[cluster.Workload]bool // workloads whose history is needed
	err       error
}

// plan returns the jobs of a term that starts now, and resets the state of the namespaces.
func (f *Backfill) plan(now time.Time, ours []*cluster.Autoscaler) []backfillJob {
	now = now.Round(0)
	oldest := now.Add(-f.source.Length())
	if f.firstTerm.IsZero() {
		f.firstTerm = now
	}
	for _, ns := range namespacesOf(ours) {
		if _, known := f.missing[ns]; !known {
			f.missing[ns] = []span{{oldest, f.firstTerm}}
		}
	}
	for ns, spans := range f.missing {
		if !f.observedUntil.IsZero() {
			spans = append(spans, span{f.observedUntil, now})
		}
		for i := range spans {
			if spans[i].from.Before(oldest) {
				spans[i].from = oldest
			}
		}
		f.missing[ns] = slices.DeleteFunc(spans, func(s span) bool { return s.to.Sub(s.from) < backfillGap })
	}
	f.observedUntil = now
	clear(f.state)
	clear(f.requested)
	clear(f.failed)
	f.finished = nil
	f.abandoned = false
	var jobs []backfillJob
	for _, ns := range namespacesOf(ours) {
		f.state[ns] = BackfillDone
		if spans := f.missing[ns]; len(spans) > 0 {
			f.state[ns] = BackfillPending
			jobs = append(jobs, backfillJob{namespace: ns, missing: slices.Clone(spans), requested: f.requested})
		}
	}
	for _, a := range ours {
		f.requested[a.Target] = true
	}
	f.publish()
	return jobs
}

// Abandon records that no history of the served VPAs is read in this term because of an internal error. It returns a closed channel.
func (f *Backfill) Abandon(now time.Time, served []*cluster.Autoscaler) <-chan struct{} {
	f.abandoned = true
	clear(f.state)
	for _, ns := range namespacesOf(served) {
		f.state[ns] = BackfillIncomplete
		f.fail(now, ns, process.ErrInternal)
	}
	f.publish()
	done := make(chan struct{})
	close(done)
	return done
}

// namespacesOf returns the namespaces of the VPAs, sorted, each once.
func namespacesOf(autoscalers []*cluster.Autoscaler) []string {
	return slices.Sorted(maps.Keys(cluster.SetOf(autoscalers, func(a *cluster.Autoscaler) string { return a.Namespace })))
}

// run executes the jobs one after the other. It is the reading goroutine, and owns the stores of its jobs until it passes them to
// finish.
func (f *Backfill) run(ctx context.Context, now time.Time, owners *ownerResolver, autoscalers []*cluster.Autoscaler, jobs []backfillJob) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	f.log.Info("Started to read usage history from Prometheus; recommendations do not decrease until it is read",
		slog.Int("namespaces", len(jobs)), slog.String("budget", f.budget.String()))
	podLabels, err := f.source.PodLabels(ctx, now)
	owners.labels = podLabels
	if err != nil && !prom.IsTimeout(err) {
		f.log.Warn("Cannot read recorded pod labels; the workload of a deleted pod is found by the pod name only", slog.Any("error", err))
		f.logQuery(err)
		err = nil
	}
	if err == nil {
		f.addCandidates(ctx, owners, autoscalers)
	}
	timeouts := 0 // of namespaces in a row, also those for which the server was overloaded
	for i := range jobs {
		job := &jobs[i]
		if err == nil {
			err = ctx.Err()
		}
		if err != nil { // no further namespace is read
			job.store = nil
			job.err = err
			f.finish(job)
			continue
		}
		before := slices.Clone(job.missing)
		job.err = process.Try(f.log, nil, job.namespace, func() error { return f.read(ctx, owners, job) })
		if errors.Is(job.err, process.ErrInternal) { // the store may be inconsistent
			job.store = nil
			job.missing = before
		}
		f.finish(job)
		if !prom.IsTimeout(job.err) && !prom.IsTooLarge(job.err) {
			timeouts = 0
			continue
		}
		timeouts++
		if timeouts == backfillSlow {
			err = errOthersSlow
		}
	}
}

// addCandidates adds the target workloads of the VPAs, with their selectors, to the resolver. After a request that timed out no
// further selector is read.
func (f *Backfill) addCandidates(ctx context.Context, owners *ownerResolver, autoscalers []*cluster.Autoscaler) {
	answers := true
	for _, a := range autoscalers {
		if ctx.Err() != nil {
			return
		}
		selector := labels.Nothing()
		if answers {
			_ = process.Try(f.log, nil, a.Key.String(), func() error { // logs the error
				requestCtx, cancel := context.WithTimeout(ctx, selectorTimeout)
				defer cancel()
				s, err := f.selector(requestCtx, a.Target)
				if err != nil {
					answers = requestCtx.Err() == nil
					f.log.Warn("Cannot read the selector of a workload; its deleted pods are found by the pod name only",
						slog.String("vpa", a.Key.String()), slog.Any("error", err))
					return nil
				}
				selector = s
				return nil
			})
		}
		owners.add(candidateWorkload{a.Target, selector, podName(a.Target)})
	}
}

// finish passes a job that has ended to the recommender's goroutine.
func (f *Backfill) finish(job *backfillJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = append(f.finished, *job)
}

// Observed records that the pass that started at now has observed live usage. The next term does not read the time before it.
func (f *Backfill) Observed(now time.Time) { f.observedUntil = now.Round(0) }

// Merge adds the history that was read since the last call to the store. It returns the namespaces whose history is complete now.
func (f *Backfill) Merge(now time.Time, store *usage.Store) (complete []string) {
	f.mu.Lock()
	finished := f.finished
	f.finished = nil
	f.mu.Unlock()
	for _, job := range finished {
		if job.store != nil {
			if err := store.Absorb(job.store); err != nil {
				f.log.Error("Cannot merge a part of the usage history of a namespace", slog.String("namespace", job.namespace), slog.Any("error", err))
			}
		}
		f.missing[job.namespace] = job.missing
		f.state[job.namespace] = BackfillDone
		if job.err != nil {
			f.state[job.namespace] = BackfillIncomplete
			f.fail(now, job.namespace, job.err)
			continue
		}
		complete = append(complete, job.namespace)
	}
	if len(finished) > 0 {
		f.publish()
	}
	return complete
}

// fail records why the history of a namespace is incomplete, and logs the first failure of a term. The end of a term is no
// failure.
func (f *Backfill) fail(now time.Time, namespace string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	cause := err.Error()
	if prom.IsTimeout(err) {
		cause = "a query timed out, or the time limit of the backfill was reached: " + cause
	}
	if len(f.failed) == 0 {
		f.log.Warn("Usage history is incomplete; recommendations are based on live usage and do not decrease for a day", slog.String("namespace", namespace),
			slog.String("error", cause), slog.String("remedy", "check that Prometheus answers at --prometheus-address, then restart the recommender; a smaller --history-length or a larger --history-resolution makes queries smaller"))
	}
	f.failed[namespace] = backfillFailure{now, wording.Shortened(cause, maxCause)}
}

// publish updates the metric of namespaces by state.
func (f *Backfill) publish() {
	count := map[BackfillState]int{}
	for _, s := range f.state {
		count[s]++
	}
	f.metrics.publishBackfill(count)
}

// State returns the state of the history of a VPA's target workload. It is BackfillDone if the workload got its first VPA after the start
// of the term, because its history is not read in this term.
func (f *Backfill) State(a *cluster.Autoscaler, now time.Time) BackfillState {
	if f == nil || !f.requested[a.Target] && !f.abandoned {
		return BackfillDone
	}
	s, known := f.state[a.Namespace]
	if !known {
		return BackfillDone // the namespace got its first VPA after the start of the term
	}
	if s == BackfillIncomplete && now.Sub(f.failed[a.Namespace].at) >= f.source.Length() {
		return BackfillDone // live usage covers the same time
	}
	return s
}

// Holds reports whether a recommendation must not decrease because history is missing.
func (f *Backfill) Holds(a *cluster.Autoscaler, now time.Time) bool {
	s := f.State(a, now)
	return s == BackfillPending || s == BackfillIncomplete && now.Sub(f.failed[a.Namespace].at) < sizing.ResetHold
}

// Failure returns why the history of a namespace is BackfillIncomplete, and the time since which there is live usage.
func (f *Backfill) Failure(namespace string) (cause string, liveSince time.Time) {
	failure := f.failed[namespace]
	return failure.cause, cmp.Or(f.firstTerm, failure.at) // the latter if no term has started to read history
}

// maxCause bounds the error text that a condition quotes, in bytes.
const maxCause = 300
