// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

// emptySource is a Prometheus without data, and a cluster without selectors.
type emptySource struct{}

func (emptySource) Length() time.Duration { return 8 * 24 * time.Hour }

func (emptySource) PodLabels(context.Context, time.Time) (map[cluster.Key]prom.Labels, error) {
	return map[cluster.Key]prom.Labels{}, nil
}

func (emptySource) HistorySince(context.Context, string, time.Time, time.Time) iter.Seq2[usage.Sample, error] {
	return func(func(usage.Sample, error) bool) {}
}

func (emptySource) PeaksSince(context.Context, string, time.Time, time.Time) iter.Seq2[usage.Sample, error] {
	return func(func(usage.Sample, error) bool) {}
}

func (emptySource) Selector(context.Context, cluster.Workload) (labels.Selector, error) {
	return labels.Nothing(), nil
}

// quietBackfill returns a backfill that does not log.
func quietBackfill(from source) *Backfill {
	return NewBackfill(from, emptySource{}.Selector, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

func TestBackfillState_eachState_decidesWhetherDecreasesAreHeld(t *testing.T) {
	failedAt := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	length := emptySource{}.Length()
	web := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: cluster.Workload{Namespace: "shop", Name: "web"}}
	requested := map[cluster.Workload]bool{web.Target: true}
	for name, tt := range map[string]struct {
		requested map[cluster.Workload]bool
		abandoned bool
		state     map[string]BackfillState
		after     time.Duration // since the failure
		want      BackfillState
		held      bool
	}{
		"pending": {requested: requested, state: map[string]BackfillState{"shop": BackfillPending}, want: BackfillPending, held: true},
		"done":    {requested: requested, state: map[string]BackfillState{"shop": BackfillDone}, want: BackfillDone},
		"workload without a VPA at the start of the term": {
			state: map[string]BackfillState{"shop": BackfillPending}, want: BackfillDone,
		},
		"namespace without a VPA at the start of the term": {requested: requested, state: map[string]BackfillState{}, want: BackfillDone},
		"failed a moment ago":                              {requested: requested, state: map[string]BackfillState{"shop": BackfillIncomplete}, want: BackfillIncomplete, held: true},
		"failed a day ago": {
			requested: requested, state: map[string]BackfillState{"shop": BackfillIncomplete}, after: sizing.ResetHold, want: BackfillIncomplete,
		},
		"failed longer ago than the history is long": {
			requested: requested, state: map[string]BackfillState{"shop": BackfillIncomplete}, after: length, want: BackfillDone,
		},
		"abandoned": {abandoned: true, state: map[string]BackfillState{"shop": BackfillIncomplete}, want: BackfillIncomplete, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := quietBackfill(emptySource{})
			f.requested = tt.requested
			f.abandoned = tt.abandoned
			f.state = tt.state
			f.failed["shop"] = backfillFailure{at: failedAt}
			now := failedAt.Add(tt.after)
			if got, held := f.State(web, now), f.Holds(web, now); got != tt.want || held != tt.held {
				t.Errorf("state %v, decreases held %t, want %v, %t", got, held, tt.want, tt.held)
			}
		})
	}
}

func TestBackfillPlan_longAbsence_spansAreNotOlderThanTheHistory(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := newBench()
	b.autoscale("web", b.deployment("web", "app"))
	f := quietBackfill(emptySource{})
	f.plan(start, b.autoscalers)
	now := start.Add(f.source.Length() / 2)
	jobs := f.plan(now, b.autoscalers)
	oldest := now.Add(-f.source.Length())
	want := []span{{oldest, start}, {start, now}}
	if len(jobs) != 1 || !slices.Equal(jobs[0].missing, want) {
		t.Errorf("jobs %+v, want the spans %v", jobs, want)
	}
	now = start.Add(3 * f.source.Length())
	jobs = f.plan(now, b.autoscalers)
	oldest = now.Add(-f.source.Length())
	want = []span{{oldest, now}}
	if len(jobs) != 1 || !slices.Equal(jobs[0].missing, want) {
		t.Errorf("jobs %+v after a longer absence, want the spans %v", jobs, want)
	}
}

func TestBackfillFail_endOfTheTerm_isNoFailure(t *testing.T) {
	f := quietBackfill(emptySource{})
	f.fail(time.Now(), "shop", context.Canceled)
	if len(f.failed) > 0 {
		t.Errorf("failures %v, want none", f.failed)
	}
	f.fail(time.Now(), "shop", errors.New("too many samples"))
	if len(f.failed) != 1 {
		t.Error("an error of Prometheus is not recorded")
	}
}

// scriptedHistory returns one sample of pod web-0 at the start of each span. The query number failAt fails after its sample, the
// query number panicAt panics after it. Numbers start with 1.
type scriptedHistory struct {
	emptySource
	queries, failAt, panicAt int
}

func (h *scriptedHistory) HistorySince(_ context.Context, namespace string, from, _ time.Time) iter.Seq2[usage.Sample, error] {
	return func(yield func(usage.Sample, error) bool) {
		h.queries++
		sample := usage.Sample{Pod: cluster.Key{Namespace: namespace, Name: "web-0"}, Container: "app", At: from.Add(time.Minute), CPU: 1, Has: cluster.Of(cluster.CPU)}
		if !yield(sample, nil) {
			return
		}
		switch h.queries {
		case h.failAt:
			yield(usage.Sample{}, &prom.QueryError{Query: "max by (pod) (memory)", Err: errors.New("too many samples")})
		case h.panicAt:
			panic("a defect")
		}
	}
}

// historyJob returns a job with two spans of a namespace with one pod, and the resolver for it.
func historyJob() (*backfillJob, *ownerResolver) {
	b := newBench()
	w := b.deployment("web", "app")
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store := usage.NewStore(usage.DefaultConfig())
	store.Tick(start.AddDate(0, 0, 2))
	store.Track(b.pods[0])
	return &backfillJob{
		namespace: "shop", missing: []span{{start, start.AddDate(0, 0, 1)}, {start.AddDate(0, 0, 1), start.AddDate(0, 0, 2)}},
		store: store, requested: map[cluster.Workload]bool{w: true},
	}, &ownerResolver{pods: map[cluster.Key]*cluster.Pod{b.pods[0].Key: b.pods[0]}, candidates: map[string]*candidateWorkloads{}}
}

func TestHistoryReader_queryFails_nextQueryStartsAfterTheLastSample(t *testing.T) {
	job, owners := historyJob()
	spans := slices.Clone(job.missing)
	r := historyReader{owners: owners, job: job, trackedAs: map[usage.PodContainer]cluster.Key{}}
	if err := r.read(t.Context(), &scriptedHistory{failAt: 2}); err == nil {
		t.Fatal("read returned no error")
	}
	want := []span{{spans[1].from.Add(time.Minute + 1), spans[1].to}}
	if !slices.Equal(job.missing, want) {
		t.Errorf("missing %v, want %v", job.missing, want)
	}
	if r.accepted != 2 {
		t.Errorf("%d samples are accepted, want 2", r.accepted)
	}
}

func TestBackfillRun_queryFails_onlyTheDebugLogHasTheQuery(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		job, owners := historyJob()
		var log bytes.Buffer
		f := quietBackfill(&scriptedHistory{failAt: 1})
		f.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
		f.run(t.Context(), job.missing[1].to, owners, nil, []backfillJob{*job})
		if !strings.Contains(log.String(), `error="too many samples"`) || strings.Contains(log.String(), "max by") != want {
			t.Errorf("at level %s, the log is\n%s", level, log.String())
		}
	}
}

func TestBackfillRun_panic_namespaceIsReadAgainInTheNextTerm(t *testing.T) {
	job, owners := historyJob()
	spans := slices.Clone(job.missing)
	f := quietBackfill(&scriptedHistory{panicAt: 2})
	f.run(t.Context(), spans[1].to, owners, nil, []backfillJob{*job})
	if len(f.finished) != 1 {
		t.Fatalf("%d results, want 1", len(f.finished))
	}
	got := f.finished[0]
	if got.store != nil || !slices.Equal(got.missing, spans) || !errors.Is(got.err, process.ErrInternal) {
		t.Errorf("a store: %t, missing %v, error %v, want no store, %v and an internal error", got.store != nil, got.missing, got.err, spans)
	}
}

// A completed pod is in the cluster but is not tracked.
func TestHistoryReader_podOfAnotherWorkload_isNotTracked(t *testing.T) {
	job, owners := historyJob()
	batch := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "batch-x7k9p"}, Top: cluster.Workload{Kind: "Job", Namespace: "shop", Name: "batch"}}
	owners.pods[batch.Key] = batch
	r := historyReader{owners: owners, job: job, trackedAs: map[usage.PodContainer]cluster.Key{}}
	if key := r.track(usage.PodContainer{Pod: batch.Key, Container: "app"}, time.Unix(0, 0)); key != (cluster.Key{}) {
		t.Errorf("the samples are added to %v, want to no pod", key)
	}
}

// The samples of a deleted pod show its start, unless they begin near the start of the period that was read.
func TestHistoryReader_deletedPod_firstSampleIsTheStart(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	r := historyReader{from: from}
	for name, tt := range map[string]struct {
		first time.Time
		want  int64
	}{
		"web-6d4cf56db6-aaaaa": {from.Add(5 * time.Minute), 0},
		"web-6d4cf56db6-bbbbb": {from.Add(time.Hour), from.Add(time.Hour).Unix()},
	} {
		got := r.substitute(web, usage.PodContainer{Pod: cluster.Key{Namespace: "shop", Name: name}, Container: "app"}, tt.first)
		if started := got.StartOf(&got.Containers[0]); started != tt.want {
			t.Errorf("%s started at %d, want %d", name, started, tt.want)
		}
	}
}

func TestOwnerResolver_existingPod_hasItsOwnWorkload(t *testing.T) {
	key := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"} // like a pod of Deployment web
	other := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-6d4cf56db6"}
	r := &ownerResolver{pods: map[cluster.Key]*cluster.Pod{key: {Key: key, Top: other}}, candidates: map[string]*candidateWorkloads{}}
	r.add(shopCandidate("web", labels.Nothing()))
	if got := r.workload(key); got != other {
		t.Errorf("the workload is %v, want %v", got, other)
	}
}

func TestBackfillPlan_termsWithoutPass_spansDoNotOverlap(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := newBench()
	b.autoscale("web", b.deployment("web", "app"))
	f := quietBackfill(emptySource{})
	f.plan(start, b.autoscalers)
	f.plan(start.Add(time.Hour), b.autoscalers)
	jobs := f.plan(start.Add(2*time.Hour), b.autoscalers)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	until := start.Add(-f.source.Length())
	for _, s := range jobs[0].missing {
		if s.from.Before(until) {
			t.Errorf("span %v overlaps another: %v", s, jobs[0].missing)
		}
		until = s.to
	}
	if want := start.Add(2 * time.Hour); !until.Equal(want) {
		t.Errorf("the spans end at %v, want %v: %v", until, want, jobs[0].missing)
	}
}

// The monotonic clock stops while a machine is suspended, so it would omit that time.
func TestBackfill_observedUntil_isWallClockTime(t *testing.T) {
	b := newBench()
	b.autoscale("web", b.deployment("web", "app"))
	f := quietBackfill(emptySource{})
	now := time.Now()
	f.plan(now, b.autoscalers)
	if got := f.observedUntil; got != now.Round(0) {
		t.Errorf("observed until %v, want %v", got, now.Round(0))
	}
	f.Observed(now)
	if got := f.observedUntil; got != now.Round(0) {
		t.Errorf("after a pass observed until %v, want %v", got, now.Round(0))
	}
}

// started starts a backfill from a source for the VPAs of a bench, waits for its end, and merges what was read.
func started(t *testing.T, f *Backfill, b *bench, now time.Time) (store *usage.Store, complete []string) {
	t.Helper()
	store = usage.NewStore(usage.DefaultConfig())
	store.Tick(now)
	for _, p := range b.pods {
		store.Configure(p.Top, nil)
		store.Track(p)
	}
	<-f.Start(t.Context(), now, store, b.pods, b.autoscalers)
	return store, f.Merge(now, store)
}

func TestBackfill_historyIsRead_isMergedOnceAndDone(t *testing.T) {
	b := newBench()
	web := b.deployment("web", "app")
	b.autoscale("web", web)
	b.autoscale("same", web)
	b.autoscale("unreadable", cluster.Workload{})
	f := quietBackfill(&scriptedHistory{})
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, complete := started(t, f, b, now)
	if n := store.Series(web, "app").Seen(cluster.CPU).Count; n != 1 || !slices.Equal(complete, []string{"shop"}) {
		t.Errorf("%d samples, complete %v, want 1 and shop", n, complete)
	}
	if got := f.State(b.autoscalers[0], now); got != BackfillDone || f.Holds(b.autoscalers[0], now) {
		t.Errorf("state %v, want done, and decreases are not held", got)
	}
	if complete := f.Merge(now, store); len(complete) > 0 || store.Series(web, "app").Seen(cluster.CPU).Count != 1 {
		t.Errorf("the history is merged twice; complete %v", complete)
	}
	select {
	case <-f.Start(t.Context(), now.Add(time.Minute), store, b.pods, b.autoscalers):
	default:
		t.Error("the next term starts to read, although no history is missing")
	}
}

func TestBackfill_queriesFail_partIsMergedAndTheCauseIsKept(t *testing.T) {
	b := newBench()
	web := b.deployment("web", "app")
	b.autoscale("web", web)
	cause := strings.Repeat("too many samples; ", 100)
	f := quietBackfill(&failingSource{err: errors.New(cause)})
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, complete := started(t, f, b, now)
	if n := store.Series(web, "app").Seen(cluster.CPU).Count; n != 1 || len(complete) > 0 {
		t.Errorf("%d samples, complete %v, want 1 and none", n, complete)
	}
	if got := f.State(b.autoscalers[0], now); got != BackfillIncomplete {
		t.Errorf("state %v, want incomplete", got)
	}
	got, liveSince := f.Failure("shop")
	if !strings.HasPrefix(cause, strings.TrimSuffix(got, "…")) || len(got) < 200 || len(got) > 310 || !liveSince.Equal(now) {
		t.Errorf("cause %q, live usage since %v, want a part of the error, and %v", got, liveSince, now)
	}
}

// failingSource returns one sample in the first query, and then an error, as each further query.
type failingSource struct {
	emptySource
	err     error
	queries int
}

func (s *failingSource) HistorySince(_ context.Context, namespace string, from, _ time.Time) iter.Seq2[usage.Sample, error] {
	return func(yield func(usage.Sample, error) bool) {
		s.queries++
		sample := usage.Sample{Pod: cluster.Key{Namespace: namespace, Name: "web-0"}, Container: "app", At: from.Add(time.Minute), CPU: 1, Has: cluster.Of(cluster.CPU)}
		if s.queries > 1 || yield(sample, nil) {
			yield(usage.Sample{}, s.err)
		}
	}
}

func TestBackfill_timeout_isTheCauseAndEndsTheBackfill(t *testing.T) {
	b := newBench()
	b.autoscale("web", b.deployment("web", "app"))
	f := quietBackfill(&slowLabels{})
	now := time.Now()
	if _, complete := started(t, f, b, now); len(complete) > 0 {
		t.Errorf("complete %v, want none", complete)
	}
	if cause, _ := f.Failure("shop"); !strings.Contains(cause, "timed out") {
		t.Errorf("cause %q, want a timeout", cause)
	}
}

// slowLabels times out when it reads labels.
type slowLabels struct{ emptySource }

func (slowLabels) PodLabels(context.Context, time.Time) (map[cluster.Key]prom.Labels, error) {
	return nil, fmt.Errorf("read labels: %w", context.DeadlineExceeded)
}

func TestBackfill_selectorFails_othersAreRequestedUnlessItTimedOut(t *testing.T) {
	for name, tt := range map[string]struct {
		selectors slowSelectors
		want      int
	}{
		"error":   {slowSelectors{}, 3},
		"timeout": {slowSelectors{hangs: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				for i := range 3 {
					name := fmt.Sprint("web-", i)
					b.autoscale(name, b.deployment(name, "app"))
				}
				f := quietBackfill(emptySource{})
				f.selector = tt.selectors.Selector
				if _, complete := started(t, f, b, time.Now()); len(complete) != 1 || tt.selectors.requests != tt.want {
					t.Errorf("complete %v after %d requests for selectors, want one namespace after %d", complete, tt.selectors.requests, tt.want)
				}
			})
		})
	}
}

// slowSelectors returns no selector: an error, or no answer at all.
type slowSelectors struct {
	hangs    bool
	requests int
}

func (s *slowSelectors) Selector(ctx context.Context, _ cluster.Workload) (labels.Selector, error) {
	s.requests++
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("not permitted")
}

func TestBackfillAbandon_servedVPAs_areHeldForADay(t *testing.T) {
	b := newBench()
	a := b.autoscale("web", b.deployment("web", "app"))
	f := quietBackfill(emptySource{})
	now := time.Now()
	select {
	case <-f.Abandon(now, b.autoscalers):
	default:
		t.Error("the channel is open")
	}
	if f.State(a, now) != BackfillIncomplete || !f.Holds(a, now) || f.Holds(a, now.Add(sizing.ResetHold)) {
		t.Errorf("state %v, held %t, after a day %t; want incomplete, held for a day", f.State(a, now), f.Holds(a, now), f.Holds(a, now.Add(sizing.ResetHold)))
	}
	var none *Backfill
	if none.State(a, now) != BackfillDone || none.Holds(a, now) {
		t.Error("without a backfill, history is missing")
	}
}

// peaks is a Prometheus that has the peak memory of three runs that were too short for samples.
type peaks struct {
	emptySource
	queries int
	err     error
}

func (p *peaks) PeaksSince(_ context.Context, namespace string, _, now time.Time) iter.Seq2[usage.Sample, error] {
	p.queries++
	return func(yield func(usage.Sample, error) bool) {
		for i := range 3 {
			pod := cluster.Key{Namespace: namespace, Name: fmt.Sprintf("report-2938475%d-x7k2p", i)}
			if !yield(usage.Sample{Pod: pod, Container: "app", At: now.Add(time.Duration(i-5) * time.Hour), Memory: 300 << 20, Peak: true}, nil) {
				return
			}
		}
		if p.err != nil {
			yield(usage.Sample{}, p.err)
		}
	}
}

// Peaks are only read where a CronJob has a VPA. The history is complete without them.
func TestBackfill_runsOfACronJobAreTooShortForSamples_haveTheirPeaks(t *testing.T) {
	for name, c := range map[string]struct {
		kind          string
		err           error
		queries, runs int
	}{
		"CronJob":        {"CronJob", nil, 1, 3},
		"CronJob, error": {"CronJob", errors.New("too many samples"), 1, 3},
		"Deployment":     {"Deployment", nil, 0, 0},
		"off":            {"CronJob", nil, 0, 0},
	} {
		b := newBench()
		w := cluster.Workload{Group: "batch", Kind: c.kind, Namespace: "shop", Name: "report"}
		b.autoscale("report", w)
		source := &peaks{err: c.err}
		f := quietBackfill(source)
		f.Peaks = name != "off"
		store, complete := started(t, f, b, time.Now())
		runs := 0
		if s := store.Series(w, "app"); s != nil {
			_, runs = s.Runs().Percentile(cluster.Memory, 1, time.Now())
		}
		if source.queries != c.queries || runs != c.runs || len(complete) != 1 {
			t.Errorf("%s: %d queries, %d runs, complete %v, want %d and %d", name, source.queries, runs, complete, c.queries, c.runs)
		}
	}
}
