// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
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

// counted counts how often a selector is asked.
type counted struct {
	labels.Selector
	n *int
}

func (c counted) Matches(l labels.Labels) bool {
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

func shopTarget(name string, s labels.Selector) target {
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	return target{w, s, podName(w)}
}

func TestPast_manyTargetsAndPods_looksAtFewTargetsForEachPod(t *testing.T) {
	asked := 0
	p := &past{targets: map[string]*targets{}, labels: map[cluster.Key]prom.Labels{}}
	for i := range 2000 {
		p.add(shopTarget(fmt.Sprint("web-", i), counted{parsed(t, fmt.Sprintf("app=web-%d,tier!=test", i)), &asked}))
	}
	for i := range 2000 {
		key := cluster.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d-6d4cf56db6-x7k9p", i)}
		p.labels[key] = prom.Labels{"app": fmt.Sprint("web-", i)}
		if got := p.workload(key).Name; got != fmt.Sprint("web-", i) {
			t.Fatalf("pod %s is of %q", key.Name, got)
		}
	}
	if asked > 4000 {
		t.Errorf("selectors were asked %d times for 2000 pods", asked)
	}
}

// The workload of a pod is that of the first target that selects it by its labels, or else of the first whose pods have such names.
func TestPast_anyTargets_findsTheFirstThatMatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	selectors := []string{"", "app=a", "app in (a,b)", "app=a,tier=x", "tier notin (x)", "app", "tier=x", "!app"}
	names := []string{"a", "a-b", "b", "a-b-c"}
	for range 500 {
		p := &past{targets: map[string]*targets{}, labels: map[cluster.Key]prom.Labels{}}
		var all []target
		for range rnd.IntN(6) {
			s := labels.Nothing()
			if i := rnd.IntN(len(selectors) + 1); i < len(selectors) {
				s = parsed(t, selectors[i])
			}
			tg := shopTarget(names[rnd.IntN(len(names))], s)
			all = append(all, tg)
			p.add(tg)
		}
		key := cluster.Key{Namespace: "shop", Name: names[rnd.IntN(len(names))] + "-6d4cf56db6-x7k9p"}
		if rnd.IntN(3) > 0 {
			p.labels[key] = prom.Labels{}
			for _, l := range []string{"app=a", "app=b", "tier=x", "tier=y"} {
				if rnd.IntN(2) == 0 {
					p.labels[key][l[:len(l)-2]] = l[len(l)-1:]
				}
			}
		}
		var want cluster.Workload
		l, labelled := p.labels[key]
		for _, tg := range all {
			if want.IsZero() && labelled && tg.selects() && tg.selector.Matches(l) {
				want = tg.workload
			}
		}
		for _, tg := range all {
			if want.IsZero() && tg.name.MatchString(key.Name) && !(labelled && tg.selects()) {
				want = tg.workload
			}
		}
		if got := p.workload(key); got != want {
			t.Fatalf("pod %s with %v is of %v, want %v", key.Name, l, got, want)
		}
	}
}

// Of kinds that podfit does not know, and where it may not be read, there is no selector: labels of a pod say nothing then.
func TestPast_selectorNotKnown_podWithLabelsIsKnownByItsName(t *testing.T) {
	p := &past{targets: map[string]*targets{}, labels: map[cluster.Key]prom.Labels{}}
	w := cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
	p.add(target{w, labels.Nothing(), podName(w)})
	key := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}
	p.labels[key] = prom.Labels{"app": "web"}
	if got := p.workload(key); got != w {
		t.Errorf("it is of %v", got)
	}
}

// broken panics at one namespace, and never says how pods are selected.
type broken struct {
	*archive
	at    string
	slow  []string // namespaces of which a query times out
	asked int
}

func (b *broken) HistorySince(ctx context.Context, namespace string, from, now time.Time, each func(usage.Sample)) error {
	if namespace == b.at {
		panic("a defect")
	}
	if slices.Contains(b.slow, namespace) {
		return fmt.Errorf("read the history of namespace %s: %w", namespace, context.DeadlineExceeded)
	}
	return b.archive.HistorySince(ctx, namespace, from, now, each)
}

func (b *broken) Selector(ctx context.Context, _ cluster.Workload) (labels.Selector, error) {
	b.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestBackfill_oneNamespacePanics_theOthersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 4)
		a := &broken{archive: &archive{}, at: "ns-1"}
		r := b.from(a.archive)
		r.backfill.source = a
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if backfilled(r, "done") != 3 || backfilled(r, "incomplete") != 1 {
			t.Errorf("%d namespaces are done, %d incomplete", backfilled(r, "done"), backfilled(r, "incomplete"))
		}
	})
}

func TestBackfill_selectorsCannotBeRead_historyIsReadAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyNamespaces(t, 20)
		a := &broken{archive: &archive{}}
		r := b.from(a.archive)
		r.backfill.selectors = a
		b.term(r, 5*time.Minute, func(time.Duration) {})
		if n := backfilled(r, "done"); n != 20 || a.asked != 1 {
			t.Errorf("after five minutes %d of 20 namespaces are done; %d selectors were asked for", n, a.asked)
		}
	})
}

func TestBackfill_largeNamespaceTimesOut_othersAreReadAndToldNothingOfIt(t *testing.T) {
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
				a := &broken{archive: &archive{}, slow: tt.slow}
				r := b.from(a.archive)
				r.backfill.source = a
				b.term(r, 5*time.Minute, func(time.Duration) {})
				if n := backfilled(r, "done"); n != tt.done {
					t.Errorf("%d of 6 namespaces are done, want %d", n, tt.done)
				}
				for i, of := range b.autoscalers {
					for j := range b.autoscalers {
						told := watcher.Condition{Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed}
						if i != j && says(b.written[of.Key], told, fmt.Sprint("ns-", j)) {
							t.Errorf("the autoscaler of ns-%d is told of ns-%d", i, j)
						}
					}
				}
			})
		})
	}
}
