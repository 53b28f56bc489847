// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// worldAfterIneffectiveEviction returns a world in which a pod was evicted at noon, and its replacement has the old requests. Evictions may be tried again.
func worldAfterIneffectiveEviction(t *testing.T) (World, Budget, time.Time) {
	t.Helper()
	w, a := growing(4)
	a.Mode = cluster.Recreate
	b := DefaultBudget()
	b.Tolerance = 1
	w.Ledger = ledger.New()
	pods := w.Governed[0].Pods
	for i, p := range pods {
		p.Created = noon.Add(time.Duration(i-10) * time.Hour)
	}
	first := Begin(noon, w, b)
	for _, d := range evictions(first) {
		if d.Pod == pods[0] {
			first.Done(d)
		}
	}
	replacement := *pods[0]
	replacement.Name, replacement.UID, replacement.Created = "replacement", "replacement", noon.Add(time.Second)
	pods[0] = &replacement
	Begin(noon.Add(time.Minute), w, b).Learn()
	if n, _ := w.Ledger.IneffectiveEvictions((&replacement).Workload(), nil); n != 1 {
		t.Fatalf("%d evictions without effect, want 1", n)
	}
	return w, b, noon.Add(time.Hour)
}

// unsized returns the replacement of a pod with the requests that it has.
func unsized(p *cluster.Pod) *cluster.Pod { return &cluster.Pod{Containers: p.Containers} }

func TestPass_dryRunShowsOldRequests_workloadIsLeftUntilNextDryRun(t *testing.T) {
	w, b, now := worldAfterIneffectiveEviction(t)
	for round := range 3 {
		pass := Begin(now, w, b)
		tried := evictions(pass)
		if len(tried) != 1 || !pass.NeedsDryRun(tried[0]) {
			t.Fatalf("round %d: evictions %v, want one, after a dry run", round, tried)
		}
		if _, stopped := pass.Unsized(tried[0]); stopped {
			t.Fatalf("round %d: the decision is stopped before the dry run", round)
		}
		why, stopped := pass.DryRun(tried[0], unsized(tried[0].Pod), "")
		next := pass.Stopped(tried[0], why)
		if !stopped || len(next) > 0 {
			t.Fatalf("round %d: stopped %v, and then %v; want no decision instead", round, stopped, next)
		}
		if _, stopped := pass.Unsized(tried[0]); !stopped {
			t.Errorf("round %d: another decision on the workload is not stopped", round)
		}
		later := Begin(now.Add(b.EvictionBackoff-time.Second), w, b)
		for _, d := range later.Decisions() {
			if d.Do != decision.Leave || d.Reason.Code != decision.NotSizedAtAdmission || !d.Reason.Until.Equal(now.Add(b.EvictionBackoff)) {
				t.Errorf("round %d: %s %s, want the reason %s", round, d.Do, d.Reason, decision.NotSizedAtAdmission)
			}
		}
		now = now.Add(b.EvictionBackoff) // the delay does not double
	}
	pass := Begin(now, w, b)
	d := evictions(pass)[0]
	sized := &cluster.Pod{Sized: true, Containers: []cluster.Container{{Name: d.With[0].Container, Requests: d.With[0].Requests}}}
	if _, stopped := pass.DryRun(d, sized, ""); stopped {
		t.Error("a dry run with the recommended requests stops the eviction")
	}
	if pass.NeedsDryRun(decision.Decision{Pod: d.Pod, Do: decision.Resize}) {
		t.Error("a resize needs a dry run")
	}
}

// An admission controller that was called may learn of a new target a moment after the updater. Its first answer with other requests is
// checked again soon, and nothing else is blamed for it before.
func TestPass_admissionControllerKnowsOldTarget_isAskedAgainSoon(t *testing.T) {
	w, b, now := worldAfterIneffectiveEviction(t)
	old := func(p *cluster.Pod) *cluster.Pod { return &cluster.Pod{Containers: p.Containers, Sized: true} }
	for round, until := range []time.Duration{10 * time.Second, b.EvictionBackoff} {
		pass := Begin(now, w, b)
		tried := evictions(pass)
		if len(tried) != 1 || !pass.NeedsDryRun(tried[0]) {
			t.Fatalf("round %d: evictions %v, want one, after a dry run", round, tried)
		}
		why, stopped := pass.DryRun(tried[0], old(tried[0].Pod), "")
		blamed := strings.Contains(why.String(), "another webhook")
		if !stopped || !why.Until.Equal(now.Add(until)) || blamed != (round == 1) {
			t.Errorf("round %d: stopped %v: %s; want it until %s after it", round, stopped, why, until)
		}
		now = now.Add(until)
	}
}

// The cause of evictions without effect is found without another eviction, and only once. A pod that is left for another reason keeps it.
func TestPass_evictionHadNoEffect_isDiagnosedOnce(t *testing.T) {
	w, b, _ := worldAfterIneffectiveEviction(t)
	pass := Begin(noon.Add(2*time.Minute), w, b)
	pass.Learn()
	open := pass.Undiagnosed()
	if len(open) != 1 {
		t.Fatalf("%d pods to diagnose, want 1", len(open))
	}
	other := pass.Decisions()[1].Pod
	resize := ledger.Attempt{Pod: other, Do: decision.Resize, With: pass.Decisions()[1].With}
	w.Ledger.Done(noon, resize) // undone since
	pass.Diagnosed(open[0], unsized(open[0].Pod), "")
	for _, d := range pass.Decisions() {
		want := decision.NotSizedAtAdmission
		if d.Pod == other {
			want = decision.BackingOff
		}
		if d.Reason.Code != want {
			t.Errorf("pod %s: %s, want %s", d.Pod.Name, d.Reason, want)
		}
	}
	again := Begin(noon.Add(3*time.Minute), w, b)
	again.Learn()
	if n := len(again.Undiagnosed()); n != 0 {
		t.Errorf("%d pods to diagnose again, want none", n)
	}
}

// worldAfterIneffectiveEvictions returns a world with workloads whose last eviction had no effect for an unknown cause.
func worldAfterIneffectiveEvictions(workloads int) World {
	w := World{Ledger: ledger.New(), Scales: map[cluster.Workload]cluster.Scale{}}
	var states []ledger.State
	for i := range workloads {
		one, a := shrinking(2)
		top := a.Target
		top.Name = fmt.Sprintf("db%d", i)
		a.Name, a.Target = top.Name, top
		for _, p := range one.Governed[0].Pods {
			p.Name, p.UID, p.Controller, p.Top = top.Name+"-"+p.Name, top.Name+p.UID, top, top
		}
		w.Governed = append(w.Governed, one.Governed...)
		w.Scales[top] = cluster.Scale{Known: true, Replicas: 2}
		states = append(states, ledger.State{Workload: top, Eviction: &ledger.EvictionState{At: noon, Newest: noon.Add(-time.Hour), Ineffective: 6, Judged: true}})
	}
	w.Ledger.Restore(noon, states)
	return w
}

// Dry runs that get no answer, for example because podfit has no right to create pods, are repeated after a delay, and those of other
// workloads are made before that.
func TestPass_dryRunsShowNothing_eachWorkloadGetsItsTurn(t *testing.T) {
	const workloads = 45
	w, b := worldAfterIneffectiveEvictions(workloads), DefaultBudget()
	asked := map[string]int{}
	for minute := range 60 {
		pass := Begin(noon.Add(time.Duration(minute)*time.Minute), w, b)
		pass.Learn()
		open := pass.Undiagnosed()
		if len(open) > 10 {
			t.Fatalf("%d dry runs in one pass, want at most 10", len(open))
		}
		for _, d := range open {
			asked[d.Autoscaler.Name]++
			pass.NotDiagnosed(d)
		}
	}
	for i := range workloads {
		if n := asked[fmt.Sprintf("db%d", i)]; n != 2 {
			t.Errorf("db%d: %d dry runs in an hour, want 2", i, n)
		}
	}
}

// The rate limit allows one action per pass. A namespace whose replacements would not get their size does not use up all of them.
func TestPass_dryRunsStopEvictionsOfANamespace_othersGetTheirTurn(t *testing.T) {
	w, b := worldAfterIneffectiveEvictions(20), DefaultBudget()
	other, a := shrinking(2)
	a.Namespace, a.Target.Namespace = "bank", "bank"
	for _, p := range other.Governed[0].Pods {
		p.Namespace, p.UID, p.Controller, p.Top = "bank", "bank"+p.UID, a.Target, a.Target
	}
	w.Governed = append(w.Governed, other.Governed...)
	w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 2}
	now := noon.Add(7 * time.Hour)
	w.Ledger.MarkServed(noon, other.Governed[0].Pods[0])
	for range 5 {
		pass := Begin(now, w, b)
		for i, d := range actions(pass) {
			switch {
			case i > 0:
				pass.Stopped(d, decision.Reason{Code: decision.RateLimited})
			case d.Pod.Namespace == "bank":
				return
			default:
				why, _ := pass.DryRun(d, unsized(d.Pod), "")
				pass.Stopped(d, why)
			}
		}
		now = now.Add(time.Minute)
	}
	t.Error("the other namespace got no turn in 5 passes")
}
