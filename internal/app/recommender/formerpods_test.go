// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/prom"
)

// countingSelector counts the calls of Matches.
type countingSelector struct {
	labels.Selector
	n *int
}

func (c countingSelector) Matches(l labels.Labels) bool {
	*c.n++
	return c.Selector.Matches(l)
}

func parsed(t *testing.T, selector string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shopCandidate(name string, s labels.Selector) candidateWorkload {
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	return candidateWorkload{w, s, podName(w)}
}

func TestOwnerResolver_manyWorkloadsAndPods_comparesFewWorkloadsWithEachPod(t *testing.T) {
	comparisons := 0
	r := &ownerResolver{candidates: map[string]*candidateWorkloads{}, labels: map[cluster.Key]prom.Labels{}}
	for i := range 2000 {
		r.add(shopCandidate(fmt.Sprint("web-", i), countingSelector{parsed(t, fmt.Sprintf("app=web-%d,tier!=test", i)), &comparisons}))
	}
	for i := range 2000 {
		key := cluster.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d-6d4cf56db6-x7k9p", i)}
		r.labels[key] = prom.Labels{"app": fmt.Sprint("web-", i)}
		if got := r.workload(key).Name; got != fmt.Sprint("web-", i) {
			t.Fatalf("pod %s has the workload %q", key.Name, got)
		}
	}
	if comparisons > 4000 {
		t.Errorf("%d comparisons with selectors for 2000 pods, want at most 4000", comparisons)
	}
}

// The workload of a pod is the first whose selector matches its labels, or else the first whose pods have such names.
func TestOwnerResolver_randomWorkloads_returnsTheFirstMatch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	selectors := []string{"", "app=a", "app in (a,b)", "app=a,tier=x", "tier notin (x)", "app", "tier=x", "!app"}
	names := []string{"a", "a-b", "b", "a-b-c"}
	for range 500 {
		r := &ownerResolver{candidates: map[string]*candidateWorkloads{}, labels: map[cluster.Key]prom.Labels{}}
		var all []candidateWorkload
		for range rnd.IntN(6) {
			s := labels.Nothing()
			if i := rnd.IntN(len(selectors) + 1); i < len(selectors) {
				s = parsed(t, selectors[i])
			}
			candidate := shopCandidate(names[rnd.IntN(len(names))], s)
			all = append(all, candidate)
			r.add(candidate)
		}
		key := cluster.Key{Namespace: "shop", Name: names[rnd.IntN(len(names))] + "-6d4cf56db6-x7k9p"}
		if rnd.IntN(3) > 0 {
			r.labels[key] = prom.Labels{}
			for _, l := range []string{"app=a", "app=b", "tier=x", "tier=y"} {
				if rnd.IntN(2) == 0 {
					r.labels[key][l[:len(l)-2]] = l[len(l)-1:]
				}
			}
		}
		var want cluster.Workload
		l, labelled := r.labels[key]
		for _, c := range all {
			if want.IsZero() && labelled && c.hasSelector() && c.selector.Matches(l) {
				want = c.workload
			}
		}
		for _, c := range all {
			if want.IsZero() && c.name.MatchString(key.Name) && !(labelled && c.hasSelector()) {
				want = c.workload
			}
		}
		if got := r.workload(key); got != want {
			t.Fatalf("pod %s with labels %v has the workload %v, want %v", key.Name, l, got, want)
		}
	}
}

// The selector is unknown for kinds that podfit does not support, and if podfit may not read it. Then labels cannot match.
func TestOwnerResolver_selectorUnknown_podWithLabelsIsFoundByName(t *testing.T) {
	r := &ownerResolver{candidates: map[string]*candidateWorkloads{}, labels: map[cluster.Key]prom.Labels{}}
	w := cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
	r.add(candidateWorkload{w, labels.Nothing(), podName(w)})
	key := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}
	r.labels[key] = prom.Labels{"app": "web"}
	if got := r.workload(key); got != w {
		t.Errorf("the workload is %v, want %v", got, w)
	}
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
		r := b.from(a.archive)
		r.backfill.source = a
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if b.backfilled(r, "done") != 3 || b.backfilled(r, "incomplete") != 1 {
			t.Errorf("%d namespaces are done and %d incomplete, want 3 and 1", b.backfilled(r, "done"), b.backfilled(r, "incomplete"))
		}
	})
}

func TestBackfill_selectorsCannotBeRead_historyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 20)
		a := &faultyArchive{archive: &archive{}}
		r := b.from(a.archive)
		r.backfill.selectors = a
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if n := b.backfilled(r, "done"); n != 20 || a.selectors != 1 {
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
				r := b.from(a.archive)
				r.backfill.source = a
				b.term(r, 5*time.Minute, func(time.Duration) {})
				if n := b.backfilled(r, "done"); n != tt.done {
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
