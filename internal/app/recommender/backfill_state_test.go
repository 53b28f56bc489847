// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

func quietBackfill(source historySource) *backfill {
	return newBackfill(source, &archive{}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

func TestBackfillOf_eachState_decidesWhetherDecreasesAreHeld(t *testing.T) {
	failedAt := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	length := (&archive{}).Length()
	web := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: cluster.Workload{Namespace: "shop", Name: "web"}}
	requested := map[cluster.Workload]bool{web.Target: true}
	for name, tt := range map[string]struct {
		requested map[cluster.Workload]bool
		abandoned bool
		state     map[string]backfillState
		after     time.Duration // since the failure
		want      backfillState
		held      bool
	}{
		"pending": {requested: requested, state: map[string]backfillState{"shop": backfillPending}, want: backfillPending, held: true},
		"done":    {requested: requested, state: map[string]backfillState{"shop": backfillDone}, want: backfillDone},
		"workload without a VPA at the start of the term": {
			state: map[string]backfillState{"shop": backfillPending}, want: backfillDone,
		},
		"namespace without a VPA at the start of the term": {requested: requested, state: map[string]backfillState{}, want: backfillDone},
		"failed a moment ago":                              {requested: requested, state: map[string]backfillState{"shop": backfillIncomplete}, want: backfillIncomplete, held: true},
		"failed a day ago": {
			requested: requested, state: map[string]backfillState{"shop": backfillIncomplete}, after: sizing.ResetHold, want: backfillIncomplete,
		},
		"failed longer ago than the history is long": {
			requested: requested, state: map[string]backfillState{"shop": backfillIncomplete}, after: length, want: backfillDone,
		},
		"abandoned": {abandoned: true, state: map[string]backfillState{"shop": backfillIncomplete}, want: backfillIncomplete, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := quietBackfill(&archive{})
			f.requested = tt.requested
			f.abandoned = tt.abandoned
			f.state = tt.state
			f.failed["shop"] = backfillFailure{at: failedAt}
			now := failedAt.Add(tt.after)
			if got, held := f.of(web, now), f.holds(web, now); got != tt.want || held != tt.held {
				t.Errorf("state %v, decreases held %t, want %v, %t", got, held, tt.want, tt.held)
			}
		})
	}
}

func TestBackfillPlan_longAbsence_spansAreNotOlderThanTheHistory(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := newBench(t)
	b.autoscale("web", b.deployment("web", 1, "app"))
	f := quietBackfill(&archive{})
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
	f := quietBackfill(&archive{})
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
	archive
	queries, failAt, panicAt int
}

func (h *scriptedHistory) PodLabels(context.Context, time.Time) (map[cluster.Key]prom.Labels, error) {
	return map[cluster.Key]prom.Labels{}, nil
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
			yield(usage.Sample{}, errors.New("too many samples"))
		case h.panicAt:
			panic("a defect")
		}
	}
}

// historyJob returns a job with two spans of a namespace with one pod, and the resolver for it.
func historyJob(t *testing.T) (*backfillJob, *ownerResolver) {
	b := newBench(t)
	w := b.deployment("web", 1, "app")
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store := usage.NewStore(usage.DefaultConfig())
	store.Tick(start.AddDate(0, 0, 2))
	store.Track(b.pods[0])
	return &backfillJob{
		namespace: "shop", missing: []span{{start, start.AddDate(0, 0, 1)}, {start.AddDate(0, 0, 1), start.AddDate(0, 0, 2)}},
		store: store, sized: func(of cluster.Workload) bool { return of == w },
	}, &ownerResolver{pods: map[cluster.Key]*cluster.Pod{b.pods[0].Key: b.pods[0]}, candidates: map[string]*candidateWorkloads{}}
}

func TestHistoryReader_queryFails_nextQueryStartsAfterTheLastSample(t *testing.T) {
	job, owners := historyJob(t)
	spans := slices.Clone(job.missing)
	r := historyReader{owners: owners, job: job, trackedAs: map[podContainer]cluster.Key{}}
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

func TestBackfillRun_panic_namespaceIsReadAgainInTheNextTerm(t *testing.T) {
	job, owners := historyJob(t)
	spans := slices.Clone(job.missing)
	f := quietBackfill(&scriptedHistory{panicAt: 2})
	f.run(t.Context(), spans[1].to, owners, nil, []backfillJob{*job})
	if len(f.finished) != 1 {
		t.Fatalf("%d results, want 1", len(f.finished))
	}
	got := f.finished[0]
	if got.store != nil || !slices.Equal(got.missing, spans) || !errors.Is(got.err, errInternal) {
		t.Errorf("a store: %t, missing %v, error %v, want no store, %v and an internal error", got.store != nil, got.missing, got.err, spans)
	}
}

// A completed pod is in the cluster but is not tracked.
func TestHistoryReader_podOfAnotherWorkload_isNotTracked(t *testing.T) {
	job, owners := historyJob(t)
	batch := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "batch-x7k9p"}, Top: cluster.Workload{Kind: "Job", Namespace: "shop", Name: "batch"}}
	owners.pods[batch.Key] = batch
	r := historyReader{owners: owners, job: job, trackedAs: map[podContainer]cluster.Key{}}
	if key := r.track(batch.Key, "app"); key != (cluster.Key{}) {
		t.Errorf("the samples are added to %v, want to no pod", key)
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
