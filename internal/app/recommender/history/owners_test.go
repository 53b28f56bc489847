// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
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

func TestPodName_namesOfEachKind_matchOnlyTheirWorkload(t *testing.T) {
	tests := []struct {
		kind, pod string
		want      bool
	}{
		{"Deployment", "web-6d4cf56db6-x7k9p", true},
		{"Deployment", "web-api-6d4cf56db6-x7k9p", false},
		{"Deployment", "web-x7k9p", false},
		{"StatefulSet", "web-0", true},
		{"StatefulSet", "web-12", true},
		{"StatefulSet", "web-x7k9p", false},
		{"DaemonSet", "web-x7k9p", true},
		{"ReplicaSet", "web-x7k9p", true},
		{"Job", "web-x7k9p", true},
		{"Job", "web-3-x7k9p", true},
		{"CronJob", "web-29383920-x7k9p", true},
		{"CronJob", "web-x7k9p", false},
		{"Rollout", "web-6d4cf56db6-x7k9p", true},
		{"Deployment", "web2-6d4cf56db6-x7k9p", false},
	}
	for _, tt := range tests {
		if got := podName(cluster.Workload{Kind: tt.kind, Name: "web"}).MatchString(tt.pod); got != tt.want {
			t.Errorf("%s web, pod %s: matches %t, want %t", tt.kind, tt.pod, got, tt.want)
		}
	}
}
