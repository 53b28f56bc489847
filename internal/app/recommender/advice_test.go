// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestAdvice_conditions_selectTheLabelsOfTheMetric(t *testing.T) {
	container := []cluster.Advice{{Container: "app"}}
	for name, tt := range map[string]struct {
		containers []cluster.Advice
		conditions []watcher.Condition
		want       objectKey
	}{
		"no condition":            {nil, nil, objectKey{matches: true}},
		"with a recommendation":   {container, nil, objectKey{advised: true, matches: true}},
		"pods match":              {nil, []watcher.Condition{{Type: v1.NoPodsMatched, Status: watcher.Removed}}, objectKey{matches: true}},
		"no pods match":           {nil, []watcher.Condition{{Type: v1.NoPodsMatched, Status: watcher.True}}, objectKey{}},
		"target is supported":     {nil, []watcher.Condition{{Type: v1.ConfigUnsupported, Status: watcher.Removed}}, objectKey{matches: true}},
		"target is not supported": {nil, []watcher.Condition{{Type: v1.ConfigUnsupported, Status: watcher.True}}, objectKey{matches: true, unsupported: true}},
		"another condition":       {nil, []watcher.Condition{{Type: v1.RecommendationProvided, Status: watcher.True}}, objectKey{matches: true}},
	} {
		adv := advice{to: &cluster.Autoscaler{Mode: cluster.Recreate}, containers: tt.containers, conditions: tt.conditions}
		tt.want.mode = cluster.Recreate.String()
		if got := adv.class(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestLookAt_podsOfAWorkload_areSummarized(t *testing.T) {
	now := time.Now()
	killed := func(phase cluster.Phase) *cluster.Pod {
		exit := &cluster.Exit{OOM: true, Started: now.Add(-2 * time.Minute), Finished: now.Add(-time.Minute)}
		return &cluster.Pod{Phase: phase, Containers: []cluster.Container{{Name: "app", Restarts: 10, Exit: exit}}}
	}
	if !inOOMLoop(&killed(cluster.Running).Containers[0], now) {
		t.Fatal("the container of the test is in no OOM kill loop")
	}
	repeat := func(n int, p *cluster.Pod) (out []*cluster.Pod) {
		for range n {
			out = append(out, p)
		}
		return out
	}
	for name, tt := range map[string]struct {
		pods    []*cluster.Pod
		live    int
		begun   bool
		looping int
	}{
		"none":                     {nil, 0, false, 0},
		"pending":                  {repeat(2, &cluster.Pod{Phase: cluster.Pending}), 2, false, 0},
		"running":                  {repeat(2, &cluster.Pod{Phase: cluster.Running}), 2, true, 0},
		"first running":            {append(repeat(1, &cluster.Pod{Phase: cluster.Running}), &cluster.Pod{Phase: cluster.Pending}), 2, true, 0},
		"succeeded":                {repeat(2, &cluster.Pod{Phase: cluster.Succeeded}), 0, true, 0},
		"OOM kill loop":            {repeat(3, killed(cluster.Running)), 3, true, 3},
		"OOM kill loop, failed":    {repeat(3, killed(cluster.Failed)), 0, true, 0},
		"as many as are examined":  {repeat(maxLooping, killed(cluster.Running)), maxLooping, true, maxLooping},
		"more than are examined":   {repeat(maxLooping+50, killed(cluster.Running)), maxLooping + 50, true, maxLooping},
		"killed, and one that ran": {append(repeat(1, killed(cluster.Running)), &cluster.Pod{Phase: cluster.Running}), 2, true, 1},
	} {
		seen := lookAt(tt.pods, now)
		if seen.live != tt.live || seen.begun != tt.begun || len(seen.looping) != tt.looping {
			t.Errorf("%s: got %d live, begun %t, %d in a loop; want %d, %t, %d", name, seen.live, seen.begun, len(seen.looping), tt.live, tt.begun, tt.looping)
		}
	}
}

// While the target cannot be examined, the condition in the status stays.
func TestAdvice_problemOfTheTarget_setsConfigUnsupported(t *testing.T) {
	for name, tt := range map[string]struct {
		problem string
		known   bool
		want    string // the status; "" if the condition is not changed
	}{
		"problem":                  {"no scale", true, watcher.True},
		"no problem":               {"", true, watcher.Removed},
		"not known":                {"", false, ""},
		"not known, with an error": {"forbidden", false, ""},
	} {
		var adv advice
		adv.sayTarget(tt.problem, tt.known)
		got := ""
		if len(adv.conditions) > 0 {
			got = string(adv.conditions[0].Status)
		}
		if got != tt.want {
			t.Errorf("%s: got status %q, want %q", name, got, tt.want)
		}
	}
}

// A recommendation without new input is only removed if it is known that there is nothing to recommend.
func TestRecommender_nothingToRecommend_lastRecommendationIsRemovedOrKept(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bench)
		kept   bool
	}{
		"policy is Off":                 {func(*bench) {}, false},
		"target has a problem":          {func(b *bench) { b.problem = "no scale" }, true},
		"target is not known":           {func(b *bench) { b.known = false }, true},
		"no pods":                       {func(b *bench) { b.pods = nil }, true},
		"usage cannot be read":          {func(b *bench) { b.usageErr = errors.New("away") }, true},
		"problem and usage can be read": {func(b *bench) { b.problem, b.known = "no scale", false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				a := b.autoscale("web", b.deployment("web", 1, "app"))
				a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, 100<<20)}}}
				a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}}
				tt.change(b)
				b.run(3 * time.Minute)
				if got := len(b.autoscalers[0].Advice) > 0; got != tt.kept {
					t.Errorf("recommendation is kept: %t, want %t", got, tt.kept)
				}
			})
		})
	}
}

func TestRecommender_firstRecommendation_isMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.autoscale("web", b.deployment("web", 1, "app"))
		r := b.run(3 * time.Minute) // without usage
		if n, _ := latencies(t, r); n != 0 {
			t.Errorf("%d first recommendations are measured without usage, want 0", n)
		}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		r = b.run(10 * time.Minute)
		if n, seconds := latencies(t, r); n != 1 || seconds < 180 || seconds > 600 {
			t.Errorf("%d first recommendations are measured, after %v s; want 1 with the age of the VPA", n, seconds)
		}
	})
}

// latencies returns the number of measured first recommendations, and the sum of their times.
func latencies(t *testing.T, r *recommender) (n uint64, seconds float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.metrics.latency)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	return h.GetSampleCount(), h.GetSampleSum()
}

// Conditions are removed from VPAs that are not served any more, but not in namespaces of another process.
func TestRecommender_vpaIsNotServed_conditionsAreRemovedInServedNamespaces(t *testing.T) {
	for name, tt := range map[string]struct {
		ignored  []string
		remarked bool
		writes   int
	}{
		"served namespace":           {nil, true, 1},
		"served, without conditions": {nil, false, 0},
		"ignored namespace":          {[]string{"shop"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.config.IgnoredNamespaces = tt.ignored
				a := b.autoscale("web", b.deployment("web", 1, "app"))
				a.Recommender, a.Remarked = "another", tt.remarked
				b.run(3 * time.Minute)
				if b.writes != tt.writes || b.conditionWrites != tt.writes {
					t.Errorf("%d writes, %d of conditions only, want %d", b.writes, b.conditionWrites, tt.writes)
				}
			})
		})
	}
}

// Two recommenders of podfit with different names write the conditions of their own VPAs only. Without a bound, each of them would remove in each
// pass what the other one has written.
func TestRecommender_vpaOfAnotherPodfit_itsConditionsAreRemovedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 1)
		c.autoscalers[0].Recommender = "another"
		c.watch(time.Hour, func(after time.Duration) {
			theirs := *c.autoscalers[0]
			theirs.Remarked = true // the other recommender has written a condition
			if after == 30*time.Minute {
				theirs.Recommender = "a third one"
			}
			c.autoscalers[0] = &theirs
		})
		if c.writes != 2 {
			t.Errorf("%d writes in an hour, want one for each recommender", c.writes)
		}
	})
}

// The target of a recommendation is only remembered when the API server has the recommendation.
func TestRecommender_statusIsWrittenOrNot_targetIsRememberedIfWritten(t *testing.T) {
	for _, err := range []error{nil, kube.ErrConflict, errors.New("etcd is full")} {
		t.Run(fmt.Sprint(err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				a := b.autoscale("web", b.deployment("web", 1, "app"))
				b.statusErr = map[string]error{"web": err}
				r := b.run(3 * time.Minute)
				_, remembered := r.advisedFor[a.Key]
				if remembered != (err == nil) {
					t.Errorf("target is remembered: %t, want %t", remembered, err == nil)
				}
			})
		})
	}
}

func TestRecommender_recommendationChanges_isCountedAsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app"))
		b.run(10 * time.Minute)
		b.use["app"] = cluster.Amounts(1200, 200<<20)
		r := b.run(time.Hour)
		if n := testutil.CollectAndCount(r.metrics.quality.change); n == 0 {
			t.Error("changes of the target are not counted")
		}
	})
}

func TestSayConflict_autoscalersOfOneTarget_oneGoverns(t *testing.T) {
	b := newBench(t)
	w := b.deployment("web", 1, "app")
	now := time.Now()
	add := func(name string, target cluster.Workload, age time.Duration, mode cluster.Mode) *cluster.Autoscaler {
		a := b.autoscale(name, target)
		a.Created, a.Mode = now.Add(-age), mode
		return a
	}
	older := add("older", w, 3*time.Hour, cluster.Recreate)
	younger := add("younger", w, 2*time.Hour, cluster.Recreate)
	off := add("off", w, 4*time.Hour, cluster.Off)
	first := add("first", cluster.Workload{}, 2*time.Hour, cluster.Recreate) // the targets of these two cannot be read
	second := add("second", cluster.Workload{}, time.Hour, cluster.Recreate)
	r := newRecommender(b.config, b.dependencies())
	v := r.look(b.Snapshot())
	for _, tt := range []struct {
		a         *cluster.Autoscaler
		governing bool
		status    string
	}{
		{older, true, watcher.Removed}, {younger, false, watcher.True}, {off, false, watcher.Removed},
		{first, true, watcher.Removed}, {second, false, watcher.Removed},
	} {
		adv := advice{to: tt.a, by: r, in: v}
		adv.sayConflict()
		if adv.governing != tt.governing || string(adv.conditions[0].Status) != tt.status {
			t.Errorf("%s: governs %t, TargetConflict %s; want %t, %s", tt.a.Name, adv.governing, adv.conditions[0].Status, tt.governing, tt.status)
		}
	}
}
