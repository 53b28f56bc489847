// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/prom"
)

// past is a Prometheus, and a cluster that contains the selectors of workloads.
type past interface {
	Length() time.Duration
	PodLabels(context.Context, time.Time) (map[cluster.Key]prom.Labels, error)
	HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error]
	PeaksSince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error]
	Selector(context.Context, cluster.Workload) (labels.Selector, error)
}

// from returns a recommender that reads history from Prometheus.
func (b *bench) from(p past) *recommender {
	b.config.Storage = "prometheus"
	d := b.dependencies()
	d.backfill = history.NewBackfill(p, p.Selector, d.metrics.history, d.log)
	return newRecommender(b.config, d)
}

// term runs a recommender as leader for a time. It calls after after each pass, with the time since the start of the term.
func (b *bench) term(r *recommender, d time.Duration, after func(time.Duration)) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	began := time.Now()
	r.lead(ctx, func(ctx context.Context, now time.Time) {
		r.pass(ctx, now)
		after(time.Since(began))
	})
}

// backfilled returns the number of namespaces in a state, from the metric.
func (b *bench) backfilled(state string) int {
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "podfit_recommender_history_backfill_namespaces" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == state {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	b.t.Fatalf("the metric has no state %s", state)
	return 0
}

// manyNamespaces returns a cluster with n namespaces, each with a workload and a VPA. Every second VPA has a recommendation.
func manyNamespaces(t *testing.T, n int) *bench {
	b := newBench(t)
	b.use["app"] = cluster.Amounts(100, 50<<20)
	for i := range n {
		b.autoscale(fmt.Sprint("web-", i), b.deployment(fmt.Sprint("web-", i), 1, "app"))
		ns := fmt.Sprint("ns-", i)
		a, p := b.autoscalers[i], b.pods[i]
		a.Namespace, a.Target.Namespace, p.Namespace, p.Top.Namespace, p.Controller.Namespace = ns, ns, ns, ns, ns
		if i%2 == 0 {
			a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(900, 800<<20)}, Uncapped: cluster.Amounts(900, 800<<20)}}
		}
	}
	return b
}

func TestBackfill_prometheusHangs_passesStartAndOneQueryIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 50)
		a := &archive{hangs: true}
		r := b.from(a)
		passes := 0
		b.term(r, 20*time.Minute, func(since time.Duration) {
			passes++
			if passes == 1 && since > time.Minute {
				t.Errorf("the first pass ended after %v, want at most a minute", since)
			}
			old := b.autoscalers[0]
			young := b.autoscalers[1]
			if got := old.AdviceFor("app"); got == nil || got.Target != cluster.Amounts(900, 800<<20) {
				t.Errorf("after %v the recommendation is %+v, want the old one", since, got)
			}
			c := b.written[young.Key]
			switch {
			case since < archiveTimeout:
				if len(young.Advice) > 0 || !says(c, watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillRunning}, "") {
					t.Errorf("after %v: recommendation %+v, conditions %+v", since, young.Advice, c)
				}
			case since > archiveTimeout+2*time.Minute:
				if len(young.Advice) == 0 || !says(c, watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed}, "--prometheus-address") {
					t.Errorf("after %v: recommendation %+v, conditions %+v", since, young.Advice, c)
				}
			}
		})
		if passes < 20 || a.queries != 0 {
			t.Errorf("%d passes in 20 minutes, want at least 20; %d namespaces were queried after the query of the labels timed out, want none", passes, a.queries)
		}
		if n := b.backfilled("incomplete"); n != 50 {
			t.Errorf("the metric has %d incomplete namespaces, want 50", n)
		}
		var at time.Duration
		b.term(r, 25*time.Hour, func(since time.Duration) { // Prometheus still hangs in the next term
			if got := b.autoscalers[0].AdviceFor("app"); at == 0 && got != nil && got.Target.CPU < 900 {
				at = since
			}
		})
		if at < 24*time.Hour || at > 24*time.Hour+10*time.Minute {
			t.Errorf("the recommendation decreased after %v, want a day", at)
		}
	})
}

// says reports whether cs contains a condition whose message contains a text.
func says(cs []watcher.Condition, want watcher.Condition, text string) bool {
	for _, c := range cs {
		if c.Type == want.Type && c.Status == want.Status && c.Reason == want.Reason && strings.Contains(c.Message, text) {
			return true
		}
	}
	return false
}

// Each query takes long, but does not time out.
func TestBackfill_slowPrometheus_endsAfterTheBudgetOfAllNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 50)
		a := &archive{delay: 4 * time.Minute}
		r := b.from(a)
		b.term(r, 2*time.Hour, func(since time.Duration) {
			if since > 30*time.Minute+2*time.Minute && b.backfilled("pending") > 0 {
				t.Fatalf("%d namespaces are pending after %v", b.backfilled("pending"), since)
			}
		})
		if n := b.backfilled("done"); n != 6 {
			t.Errorf("%d namespaces are done, want 6", n)
		}
		if c := b.written[b.autoscalers[1].Key]; !says(c, watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.Removed}, "") {
			t.Errorf("conditions of a namespace that is done: %+v", c)
		}
	})
}

func TestBackfill_historyArrivesBetweenPasses_eachSampleIsCountedOnce(t *testing.T) {
	for _, delay := range []time.Duration{0, 3*time.Minute + 10*time.Second} {
		for _, profile := range []string{"", "busy-hours", "balanced"} {
			t.Run(fmt.Sprint(delay, " ", profile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					b.use["app"] = cluster.Amounts(100, 50<<20) // less than in the history
					web := b.deployment("web", 3, "app")
					b.autoscale("web", web).Recommender = profile
					a := &archive{delay: delay, pods: []cluster.Key{{Namespace: "shop", Name: "web-0"}, {Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}}}
					r := b.from(a)
					passes := 0
					b.term(r, 15*time.Minute, func(since time.Duration) {
						passes++
						if delay == 0 && len(b.autoscalers[0].Advice) == 0 {
							t.Error("the first pass makes no recommendation although Prometheus answered before")
						}
						if got := b.autoscalers[0].Advice; len(got) > 0 && (got[0].Target.CPU < 290 || got[0].Target.Memory < 200<<20) {
							t.Errorf("after %v the recommendation is %v, which ignores the history", since, got[0].Target)
						}
					})
					if got, want := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count, 2*8*24+3*passes; got != want {
						t.Errorf("%d samples were accepted, want %d", got, want)
					}
					b.advice("web", "app")
					if pods, _ := r.usageStore.Size(); pods != 3 {
						t.Errorf("%d pods are tracked in the end, want 3", pods)
					}
					if b.storeWrites > 0 {
						t.Errorf("%d checkpoints were written, want none", b.storeWrites)
					}
				})
			})
		}
	}
}

func TestBackfill_nextTerm_readsOnlyMissingHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		b.autoscale("web", web)
		a := &archive{pods: []cluster.Key{{Namespace: "shop", Name: "web-0"}}}
		r := b.from(a)
		none := func(time.Duration) {}
		count := func() int { return r.usageStore.Series(web, "app").Seen(cluster.CPU).Count }
		b.term(r, 10*time.Minute, none)
		for range 20 { // the lease is lost and regained
			time.Sleep(15 * time.Second)
			b.term(r, time.Minute, none)
		}
		if a.queries != 1 {
			t.Errorf("%d queries after 20 short terms, want 1", a.queries)
		}
		had := count()
		time.Sleep(5 * time.Hour) // another replica leads
		b.term(r, 2*time.Minute, none)
		if got := count() - had; a.queries != 2 || got < 5 || got > 9 {
			t.Errorf("%d more samples with %d queries after another replica led for 5 hours, want 5 to 9 samples with 2 queries", got, a.queries)
		}
	})
}

// Prometheus answers with an error.
func TestBackfill_oneNamespaceFails_othersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 4)
		a := &archive{broken: map[string]error{"ns-1": errors.New("too many samples")}}
		r := b.from(a)
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if b.backfilled("done") != 3 || b.backfilled("incomplete") != 1 {
			t.Errorf("%d namespaces are done and %d incomplete, want 3 and 1", b.backfilled("done"), b.backfilled("incomplete"))
		}
		if c := b.written[b.autoscalers[1].Key]; !says(c, watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed}, "too many samples") {
			t.Errorf("conditions %+v", c)
		}
		queries := a.queries
		a.broken = nil
		b.term(r, 2*time.Minute, func(time.Duration) {})
		if a.queries != queries+1 || b.backfilled("done") != 4 {
			t.Errorf("the next term sent %d queries and %d namespaces are done, want 1 and 4", a.queries-queries, b.backfilled("done"))
		}
	})
}

// faultyArchive panics for one namespace, times out for some, and does not answer requests for selectors.
type faultyArchive struct {
	*archive
	panics    string   // namespace
	slow      []string // namespaces whose queries time out
	selectors int      // requests for selectors
}

func (b *faultyArchive) HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error] {
	if namespace == b.panics {
		panic("a defect")
	}
	if slices.Contains(b.slow, namespace) {
		return func(yield func(usage.Sample, error) bool) {
			yield(usage.Sample{}, fmt.Errorf("read the history of namespace %s: %w", namespace, context.DeadlineExceeded))
		}
	}
	return b.archive.HistorySince(ctx, namespace, from, now)
}

func (b *faultyArchive) Selector(ctx context.Context, _ cluster.Workload) (labels.Selector, error) {
	b.selectors++
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestBackfill_oneNamespacePanics_theOthersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 4)
		a := &faultyArchive{archive: &archive{}, panics: "ns-1"}
		r := b.from(a)
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if b.backfilled("done") != 3 || b.backfilled("incomplete") != 1 {
			t.Errorf("%d namespaces are done and %d incomplete, want 3 and 1", b.backfilled("done"), b.backfilled("incomplete"))
		}
	})
}

func TestBackfill_selectorsCannotBeRead_historyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 20)
		a := &faultyArchive{archive: &archive{}}
		r := b.from(a)
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if n := b.backfilled("done"); n != 20 || a.selectors != 1 {
			t.Errorf("after five minutes %d of 20 namespaces are done; %d selectors were requested, want 1", n, a.selectors)
		}
	})
}

func TestBackfill_namespaceTimesOut_othersAreReadAndDoNotReportIt(t *testing.T) {
	tests := map[string]struct {
		slow []string
		done int
	}{
		"one":          {[]string{"ns-1"}, 5},
		"two apart":    {[]string{"ns-1", "ns-3"}, 4},
		"two in a row": {[]string{"ns-1", "ns-2"}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := manyNamespaces(t, 6)
				a := &faultyArchive{archive: &archive{}, slow: tt.slow}
				r := b.from(a)
				b.term(r, 5*time.Minute, func(time.Duration) {})
				if n := b.backfilled("done"); n != tt.done {
					t.Errorf("%d of 6 namespaces are done, want %d", n, tt.done)
				}
				for i, of := range b.autoscalers {
					for j := range b.autoscalers {
						failure := watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed}
						if i != j && says(b.written[of.Key], failure, fmt.Sprint("ns-", j)) {
							t.Errorf("the condition of the VPA in ns-%d names ns-%d", i, j)
						}
					}
				}
			})
		})
	}
}
