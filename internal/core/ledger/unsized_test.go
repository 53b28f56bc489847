// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

var web = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

// created returns the container of a pod in a dry run.
func created(cpu int64, sized bool) *cluster.Pod {
	return &cluster.Pod{Sized: sized, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, 1<<30)}}}
}

// boosted returns the container of a pod in a dry run that has a CPU startup boost.
func boosted(cpu, memory int64) *cluster.Pod {
	return &cluster.Pod{Sized: true, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, memory), Boosted: new(cluster.Applied)}}}
}

// After an eviction without effect, dry runs are needed for all workloads, until an eviction has an effect anywhere.
func TestNeedsDryRun_evictionOfAnotherWorkloadHadNoEffect_untilOneHas(t *testing.T) {
	l := New()
	evict := func(p *cluster.Pod) {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: p.Created})
	}
	pods := podsOf(2)
	pods[1].Top = web
	evict(pods[0])
	if l.NeedsDryRun(db) || l.NeedsDryRun(web) {
		t.Error("a dry run is needed before the effect of an eviction is known")
	}
	isUndiagnosed := func(w cluster.Workload) bool {
		_, open := l.Undiagnosed(w)
		return open
	}
	old := withCPU(pods[0], "old", noon.Add(time.Minute), 1000)
	l.Learn(noon.Add(time.Minute), viewOf(1, old), wants(fits(100), old))
	if !l.NeedsDryRun(db) || !l.NeedsDryRun(web) || !isUndiagnosed(db) || isUndiagnosed(web) {
		t.Error("no dry run is needed after an eviction without effect, or another workload is undiagnosed")
	}
	evict(pods[1])
	l.Learn(noon.Add(2*time.Minute), viewOf(1, old), wants(fits(100), old))
	if !l.NeedsDryRun(web) {
		t.Error("the doubt ended without a replacement that has its size")
	}
	good := withCPU(pods[1], "good", noon.Add(3*time.Minute), 100)
	l.Learn(noon.Add(3*time.Minute), viewOf(1, old, good), append(wants(fits(100), old), decision.Decision{Pod: good, With: fits(100)}))
	if !l.NeedsDryRun(db) || l.NeedsDryRun(web) {
		t.Error("the other workload still needs dry runs, or the one without effect does not")
	}
}

func TestDryRun_replacement_showsWhetherItIsSized(t *testing.T) {
	for name, c := range map[string]struct {
		replacement *cluster.Pod
		failed      string
		want        Unsized
		sized       bool
	}{
		"it gets the requests":                {replacement: created(102, true), sized: true},
		"it is boosted while it starts":       {replacement: boosted(300, 1<<30), sized: true},
		"it is boosted, but has other memory": {replacement: boosted(300, 1<<20), want: Unsized{Container: "app", Resource: cluster.Memory, Got: 1 << 20, Want: 1 << 30, Called: true, First: true}},
		"the webhook was not called":          {replacement: created(1000, false), want: Unsized{Container: "app", Resource: cluster.CPU, Got: 1000, Want: 100}},
		"something else changes requests":     {replacement: created(400, true), want: Unsized{Container: "app", Resource: cluster.CPU, Got: 400, Want: 100, Called: true, First: true}},
		"the container is missing":            {replacement: new(cluster.Pod), want: Unsized{}},
		"it would not be created":             {failed: "failed calling webhook", want: Unsized{Failed: "failed calling webhook"}},
	} {
		for _, known := range []bool{false, true} { // whether an eviction is recorded
			l, pod := New(), podsOf(1)[0]
			attempt := Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created}
			if known {
				l.Done(noon, attempt)
			}
			sized := l.DryRun(noon.Add(time.Minute), attempt, c.replacement, c.failed)
			got, unsized := l.LastUnsized(db)
			if !c.sized {
				c.want.At = noon.Add(time.Minute)
			}
			if sized != c.sized || unsized == c.sized || got != c.want {
				t.Errorf("%s: sized %v, %+v, want %+v", name, sized, got, c.want)
			}
			n, _ := l.IneffectiveEvictions(db, nil)
			if want := map[bool]int{false: 1, true: 0}[c.sized]; n != want {
				t.Errorf("%s: %d evictions without effect, want %d", name, n, want)
			}
		}
	}
}

// An admission controller that takes part may know a target late. Its first answer proves nothing, and neither does one with the target before.
// All others count, although targets change often.
func TestDryRun_admissionControllerTakesPart_firstAnswerAndLateOnesDoNotCount(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	for i, step := range []struct {
		want, got int64
		first     bool
	}{
		{200, 900, true},  // another webhook resets the request, or the target is not known yet
		{200, 900, false}, // another webhook
		{250, 900, false}, // still, with another target
		{300, 250, true},  // the target before
		{300, 250, false}, // it is not late, but another webhook
		{350, 400, false}, // neither
	} {
		now := noon.Add(time.Duration(i) * time.Minute)
		l.DryRun(now, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(step.want), Newest: pod.Created}, created(step.got, true), "")
		u, found := l.LastUnsized(db)
		asked, open := l.Undiagnosed(db)
		if !found || u.First != step.first || open != step.first || !asked.Equal(now) {
			t.Errorf("step %d: %+v, open %t since %s; want the first answer %t", i, u, open, asked, step.first)
		}
	}
}

// The record of a dry run ends with the next eviction, and with a replacement that has the requests.
func TestDryRun_replacementHasItsSize_recordEnds(t *testing.T) {
	for name, end := range map[string]func(l *Ledger, p *cluster.Pod){
		"next eviction": func(l *Ledger, p *cluster.Pod) {
			l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: p.Created})
		},
		"next dry run": func(l *Ledger, p *cluster.Pod) {
			l.DryRun(noon, Attempt{Pod: p, Do: decision.Evict, With: fits(100)}, created(100, true), "")
		},
		"replacement": func(l *Ledger, p *cluster.Pod) {
			l.Learn(noon, viewOf(1), []decision.Decision{{Pod: withCPU(p, "new", noon, 100), With: fits(100)}})
		},
		"a day": func(l *Ledger, p *cluster.Pod) {
			l.Learn(noon.Add(attempt.HistoryTTL+time.Hour), viewOf(1, p), wants(fits(100), p))
		},
	} {
		l, pod := New(), podsOf(1)[0]
		l.DryRun(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created}, created(1000, false), "")
		if _, found := l.LastUnsized(db); !found {
			t.Fatalf("%s: no record", name)
		}
		end(l, pod)
		if u, found := l.LastUnsized(db); found {
			t.Errorf("%s: the record is still %+v", name, u)
		}
	}
}
