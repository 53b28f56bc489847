// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// restored returns a ledger after a restart.
func restored(now time.Time, l *Ledger, b Budget) *Ledger {
	next := NewLedger()
	next.Restore(now, l.Export(b))
	return next
}

// summary returns the decisions of a pass by pod. The order of actions of different namespaces is not part of it.
func summary(now time.Time, w World, l *Ledger, b Budget) []string {
	w.Ledger = l
	out := []string{}
	for _, d := range Plan(now, w, b) {
		out = append(out, fmt.Sprint(d.Pod.Key, " ", d.Pod.UID, " ", d.Do, " ", d.Fallback, ": ", d.Reason.String()))
	}
	slices.Sort(out)
	return out
}

// drawChanges changes the pods as the cluster may do after the actions of a pass.
func drawChanges(t *rapid.T, now time.Time, w World, changed map[*cluster.Pod]decision.Decision) {
	for _, g := range w.Governed {
		for i, p := range g.Pods {
			d, ok := changed[p]
			if !ok {
				continue
			}
			q := *p
			q.Containers = slices.Clone(p.Containers)
			switch rapid.IntRange(0, 3).Draw(t, "afterwards") {
			case 0: // the watch still shows the pod as before
				continue
			case 1: // changed, with the old requests
			case 2, 3:
				for j := range q.Containers {
					for _, f := range d.With {
						if f.Container == q.Containers[j].Name {
							q.Containers[j].Requests = f.Requests.Or(q.Containers[j].Requests)
						}
					}
				}
			}
			if d.Do == decision.Evict || d.Do == decision.Delete {
				q.UID, q.Created = fmt.Sprint(p.UID, "+"), now.Add(time.Second)
			}
			g.Pods[i] = &q
		}
	}
}

// drawCrashes draws workloads whose pods are OOM-killed again and again behind PodDisruptionBudgets.
func drawCrashes(t *rapid.T) (World, Budget) {
	w, b := drawBusyWorld(t)
	b.Rescue = rapid.SampledFrom([]RescueMode{RescueByDeletion, RescueByDeletion, RescueByEviction}).Draw(t, "rescue")
	w.Budgets = map[string][]cluster.DisruptionBudget{}
	for _, g := range w.Governed {
		for i, p := range g.Pods {
			q := *p
			q.Containers = slices.Clone(p.Containers)
			g.Pods[i] = &q
			if rapid.IntRange(0, 4).Draw(t, "crashing") == 0 {
				continue
			}
			q.Ready, q.Phase = false, cluster.Running
			q.Crash = &cluster.Crash{Version: "1", Labels: []string{"app=web"}}
			q.LocalData = rapid.IntRange(0, 5).Draw(t, "local data") == 0
			q.Containers[0].Exit = &cluster.Exit{
				OOM: true, Now: true, Kills: uint8(rapid.IntRange(1, 6).Draw(t, "kills")), Started: noon.Add(-2 * time.Minute), Finished: noon.Add(-time.Minute),
			}
		}
		w.Budgets[g.Autoscaler.Namespace] = []cluster.DisruptionBudget{{
			Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Key: "app", Values: []string{"web"}}}},
			Healthy: 0, Desired: int32(rapid.IntRange(1, 3).Draw(t, "desired")), Current: true,
		}}
	}
	return w, b
}

// The drawn histories contain the records of all features, so that the test below covers them.
func TestDrawCrashesAndFullNodes_histories_haveDeletionsAndShortages(t *testing.T) {
	var deletions, refusedDeletions, parts int
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawFullNodes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		for range 3 {
			p := Begin(noon, w, b)
			outcomes(t, p)
		}
		for _, s := range w.Ledger.Export(b) {
			if s.Deletion != nil {
				deletions++
			}
			for _, p := range s.Pods {
				if p.Do == decision.Delete {
					refusedDeletions++
				}
			}
			for _, x := range s.Shortages {
				parts += x.Parts
			}
		}
	})
	if min(deletions, refusedDeletions, parts) == 0 {
		t.Errorf("%d deletions, %d refused ones and %d resizes by a part are drawn, want some of each", deletions, refusedDeletions, parts)
	}
}

// For all histories of outcomes: the decisions after a restart are those without one.
func TestLedger_anyHistoryAndRestart_decisionsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawWorld, drawBusyWorld, drawFullNodes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		b.Window = 0 // what took from the budget is not stored: more is blocked for less than a minute
		now := noon
		for range rapid.IntRange(1, 6).Draw(t, "passes") {
			p := Begin(now, w, b)
			p.Learn()
			_, down := outcomes(t, p)
			drawChanges(t, now, w, down)
			after := restored(now, w.Ledger, b)
			if diff := gocmp.Diff(w.Ledger.Export(b), after.Export(b)); diff != "" {
				t.Fatalf("state after a restart (-want +got):\n%s", diff)
			}
			for _, later := range []time.Duration{time.Second, 90 * time.Second, 6 * time.Minute, 2 * time.Hour, 30 * time.Hour} {
				want, got := summary(now.Add(later), w, w.Ledger, b), summary(now.Add(later), w, after, b)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Fatalf("decisions %v after a restart (-want +got):\n%s", later, diff)
				}
			}
			if rapid.Bool().Draw(t, "restart") {
				w.Ledger = after
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 25 * time.Hour}).Draw(t, "later"))
		}
	})
}

// For all histories: whatever the clock does during a restart, each action that the ledger blocks is possible again after the longest
// back-off.
func TestLedger_clockJumpsDuringRestart_nothingIsBlockedForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawBusyWorld, drawFullNodes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		now := noon
		for range rapid.IntRange(1, 6).Draw(t, "passes") {
			p := Begin(now, w, b)
			p.Learn()
			outcomes(t, p) // the watch shows no change
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "later"))
		}
		now = now.Add(rapid.SampledFrom([]time.Duration{-20 * 365 * 24 * time.Hour, -24 * time.Hour, -time.Hour, 0, 24 * time.Hour, 20 * 365 * 24 * time.Hour}).Draw(t, "jump"))
		states := w.Ledger.Export(b)
		for i := range states {
			states[i].ActingSince = rapid.SampledFrom([]time.Time{{}, noon, noon.Add(1e6 * time.Hour)}).Draw(t, "acting")
		}
		after := NewLedger()
		after.Restore(now, states)
		for _, s := range after.Export(b) {
			for _, at := range append([]time.Time{s.LastAction()}, attempts(s)...) {
				if at.After(now) {
					t.Fatalf("%v has a time after now: %v", s.Workload, at)
				}
			}
		}
		longest := max(b.BackoffMax, b.RefusalMax, watchDelay)
		for _, line := range summary(now.Add(longest), w, after, b) {
			for _, blocked := range []string{"No pod is changed until", "next attempt", "still shows it"} {
				if strings.Contains(line, blocked) {
					t.Fatalf("blocked after %v: %s", longest, line)
				}
			}
		}
	})
}

func attempts(s State) (out []time.Time) {
	for _, p := range s.Pods {
		out = append(out, p.At)
	}
	return out
}

func TestLedger_updaterEndedWhileActing_changesNoPodOfTheWorkloadUntilTheWatchMustShowIt(t *testing.T) {
	w, _ := shrinking(3)
	web := w.Governed[0].Pods[0].Top
	w.Ledger.Restore(noon, []State{{Workload: web, ActingSince: noon}})
	for _, x := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {watchDelay - time.Second, 0}, {watchDelay, 1}} {
		if ds := evictions(Begin(noon.Add(x.after), w, DefaultBudget())); len(ds) != x.want {
			t.Errorf("%d evictions after %v, want %d", len(ds), x.after, x.want)
		}
	}
	for _, d := range Begin(noon, w, DefaultBudget()).Decisions() {
		if d.Reason.Code != decision.Interrupted {
			t.Errorf("%s: %s", d.Pod.Name, d.Reason)
		}
	}
	w.Ledger.Learn(noon.Add(time.Hour), w, nil)
	if got := w.Ledger.Export(DefaultBudget()); len(got) != 0 {
		t.Errorf("state after the watch delay: %+v, want none", got)
	}
}

// The state of a workload is bounded. The most recent attempts are kept.
func TestLedger_manyPodsAndContainers_stateIsBounded(t *testing.T) {
	w, _ := shrinking(2 * maxPodStates)
	b := DefaultBudget()
	b.Tolerance = 1
	ds := Begin(noon, w, b).Decisions()
	for i, d := range ds {
		d.Do = decision.Evict
		for j := range 2 * maxContainerStates {
			d.With = append(d.With, policy.Fitted{Container: fmt.Sprint("c", j)})
		}
		w.Ledger.Refused(noon.Add(time.Duration(i)*time.Second), attemptOf(w, d), decision.Refusal{Kind: decision.Denied, Text: strings.Repeat("long ", 1000)}, 0)
		w.Ledger.addPending(noon, attemptOf(w, d))
	}
	states := w.Ledger.Export(b)
	if len(states) != 1 {
		t.Fatalf("%d states, want 1", len(states))
	}
	s := states[0]
	if len(s.Pods) != maxPodStates || s.Omitted != len(ds)-maxPodStates || s.Pods[0].Name != ds[len(ds)-1].Pod.Name {
		t.Errorf("%d pods, %d omitted, first is %s", len(s.Pods), s.Omitted, s.Pods[0].Name)
	}
	if n := len(s.Pods[0].With); n != maxContainerStates {
		t.Errorf("%d containers, want %d", n, maxContainerStates)
	}
	if n := len(s.Pods[0].Failed.Text); n > maxRefusalText+len("…") {
		t.Errorf("text of %d bytes", n)
	}
	if n := len(s.Replacements[0].Evicted); n != maxEvictedPods {
		t.Errorf("%d evicted pods, want %d", n, maxEvictedPods)
	}
}

// Deletions, and steps that make room, are stored as they are.
func TestLedger_deletionsAndSteps_areRestored(t *testing.T) {
	w, a := shrinking(3)
	pods := w.Governed[0].Pods
	web := pods[0].Top
	kept := NewLedger()
	part := Attempt{Pod: pods[0], Autoscaler: a.Key, Do: decision.Resize, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(150, 1<<30)}}, Part: true}
	kept.Done(noon, part)
	kept.Done(noon.Add(time.Minute), Attempt{Pod: pods[1], Autoscaler: a.Key, Do: decision.Evict, RoomFor: pods[0]})
	kept.Done(noon.Add(2*time.Minute), Attempt{Pod: pods[2], Autoscaler: a.Key, Do: decision.Delete})
	kept.Done(noon.Add(3*time.Minute), Attempt{Pod: pods[2], Autoscaler: a.Key, Do: decision.Delete, Repeated: true})
	kept.Refused(noon.Add(4*time.Minute), Attempt{Pod: pods[1], Autoscaler: a.Key, Do: decision.Delete}, decision.Refusal{Kind: decision.ServerBusy}, 0)
	after := restored(noon.Add(5*time.Minute), kept, DefaultBudget())
	if got := after.lacking["0"]; got.parts != 1 || got.moves != 1 || !got.since.Equal(noon) || len(got.with) != 1 {
		t.Errorf("shortage %+v", got)
	}
	if got := after.rescues[web]; got.again != 1 || got.uid != "2" || !got.at.Equal(noon.Add(3*time.Minute)) {
		t.Errorf("deletion %+v", got)
	}
	if r, ok := after.refusal(pods[1], decision.Delete); !ok || r.Kind != decision.ServerBusy || r.n != 1 {
		t.Errorf("refusal %+v (%t)", r, ok)
	}
	if diff := gocmp.Diff(kept.Export(DefaultBudget()), after.Export(DefaultBudget())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLedger_manyShortages_mostRecentAreStored(t *testing.T) {
	w, a := shrinking(3 * maxShortageStates)
	for i, p := range w.Governed[0].Pods {
		w.Ledger.Done(noon.Add(time.Duration(i)*time.Second), Attempt{Pod: p, Autoscaler: a.Key, Do: decision.Resize, Part: true})
	}
	s := w.Ledger.Export(DefaultBudget())[0]
	if n := len(s.Shortages); n != maxShortageStates || s.Shortages[0].UID != w.Governed[0].Pods[3*maxShortageStates-1].UID {
		t.Errorf("%d shortages, the first is of pod %s", n, s.Shortages[0].UID)
	}
}

func TestLedger_hostileState_isIgnoredOrBounded(t *testing.T) {
	web := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	far := noon.Add(1e6 * time.Hour)
	for name, s := range map[string]State{
		"no workload":           {ActingSince: noon, Pods: []PodState{{UID: "0", Do: decision.Evict, Done: true, At: noon}}},
		"no UID":                {Workload: web, Pods: []PodState{{Do: decision.Evict, Done: true, At: noon}}},
		"no time":               {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Evict, Done: true}}},
		"no outcome":            {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Evict, At: noon}}},
		"no action":             {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Leave, Done: true, At: noon}}},
		"unknown action":        {Workload: web, Pods: []PodState{{UID: "0", Do: 99, Done: true, At: noon}}},
		"unknown kind":          {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Evict, At: noon, Failed: &FailedState{Refusal: decision.Refusal{Kind: 99}}}}},
		"controller elsewhere":  {Workload: web, Replacements: []PendingState{{Controller: cluster.Workload{Namespace: "bank", Name: "x"}, Autoscaler: cluster.Key{Namespace: "shop"}, Evicted: []EvictedPod{{At: noon}}}}},
		"autoscaler elsewhere":  {Workload: web, Replacements: []PendingState{{Controller: web, Autoscaler: cluster.Key{Namespace: "bank"}, Evicted: []EvictedPod{{At: noon}}}}},
		"eviction without time": {Workload: web, Eviction: &EvictionState{Ineffective: 5}},
		"rounds without time":   {Workload: web, Rounds: &RoundsState{Count: 5}},
		"single round":          {Workload: web, Rounds: &RoundsState{At: noon, Count: -1}},
		"deletion without time": {Workload: web, Deletion: &DeletionState{Again: 5}},
		"deletion as attempt":   {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Delete, Done: true, At: noon}}},
		"shortage without time": {Workload: web, Shortages: []ShortageState{{UID: "0", Parts: 5}}},
		"shortage without UID":  {Workload: web, Shortages: []ShortageState{{Since: noon, Parts: 5}}},
	} {
		l := NewLedger()
		l.Restore(noon, []State{s})
		if got := l.Export(DefaultBudget()); len(got) != 0 {
			t.Errorf("%s: state %+v, want none", name, got)
		}
	}
	l := NewLedger()
	l.Restore(noon, []State{{
		Workload: web, ActingSince: far, LastEviction: far, Deletion: &DeletionState{At: far, Memory: -1, Again: 1 << 60}, Rounds: &RoundsState{At: far, Count: 1 << 60},
		Shortages: []ShortageState{{UID: "2", Since: far, Parts: -1, Moves: 1 << 60}},
		Eviction:  &EvictionState{At: far, Newest: far, Ineffective: 1 << 60, Before: &EvictionState{At: far, Ineffective: -5, Before: &EvictionState{At: far}}},
		Pods: []PodState{
			{UID: "0", Do: decision.Evict, At: far, Attempts: 1 << 60, Failed: &FailedState{Refusal: decision.Refusal{Kind: decision.DeniedByBudget, Text: strings.Repeat("x", 1<<20)}, Transient: -1, Lost: far, Ready: -7}},
			{UID: "1", Do: decision.Resize, Done: true, At: far, Attempts: -1},
		},
	}})
	e := l.evictions[web]
	if !e.at.Equal(noon) || e.ineffective != maxRestoredCount || e.before.ineffective != 0 || e.before.before != nil {
		t.Errorf("eviction %+v", e)
	}
	if d := l.rescues[web]; !d.at.Equal(noon) || d.memory != 0 || d.again != maxRestoredCount {
		t.Errorf("deletion %+v", d)
	}
	if r := l.rounds[web]; !r.at.Equal(noon) || r.n != maxRestoredCount {
		t.Errorf("rounds %+v", r)
	}
	if s := l.lacking["2"]; !s.since.Equal(noon) || s.parts != 0 || s.moves != maxRestoredCount {
		t.Errorf("shortage %+v", s)
	}
	r := l.refusals[refusedKey{"0", decision.Evict}]
	if !r.at.Equal(noon) || r.n != maxRestoredCount || r.transient != 0 || r.ready != 0 || !r.lost.Equal(noon) || len(r.Text) > 400 {
		t.Errorf("refusal %+v", r)
	}
}

// A user of one namespace cannot block the updates of another one for longer than a pass.
func TestLedger_stateNamesPodOfOtherNamespace_isForgotten(t *testing.T) {
	w, _ := shrinking(3)
	foreign := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "attacker", Name: "x"}
	s := State{Workload: foreign}
	for _, p := range w.Governed[0].Pods {
		s.Pods = append(s.Pods, PodState{UID: p.UID, Do: decision.Evict, Done: true, At: noon},
			PodState{UID: p.UID, Do: decision.Evict, At: noon, Attempts: 1000, Failed: &FailedState{Refusal: decision.Refusal{Kind: decision.Denied}}},
			PodState{UID: p.UID, Do: decision.Delete, At: noon, Attempts: 1000, Failed: &FailedState{Refusal: decision.Refusal{Kind: decision.Denied}}})
		s.Shortages = append(s.Shortages, ShortageState{UID: p.UID, Since: noon, Parts: 1})
	}
	w.Ledger.Restore(noon, []State{s})
	first := Begin(noon, w, DefaultBudget())
	first.Learn()
	if ds := evictions(Begin(noon.Add(time.Minute), w, DefaultBudget())); len(ds) != 1 {
		t.Errorf("%d evictions after a pass, want 1", len(ds))
	}
	if got := w.Ledger.Export(DefaultBudget()); len(got) != 0 {
		t.Errorf("state %+v, want none", got)
	}
}

// A pod that is not in service is changed before another one is refused: the number of ready pods is not less than none, so the back-off
// holds and the state can be stored.
func TestPass_refusedAfterChangeOfPodThatIsDown_backsOff(t *testing.T) {
	w, _ := shrinking(3)
	for _, p := range w.Governed[0].Pods {
		p.Phase, p.Ready = cluster.Pending, false
	}
	first := Begin(noon, w, DefaultBudget())
	ds := evictions(first)
	if len(ds) != 3 {
		t.Fatalf("%d evictions, want 3", len(ds))
	}
	first.Done(ds[0])
	first.Refused(ds[1], decision.Refusal{Kind: decision.DeniedByBudget})
	for _, d := range evictions(Begin(noon.Add(30*time.Second), w, DefaultBudget())) {
		if d.Pod.UID == ds[1].Pod.UID {
			t.Error("the refused eviction is tried again at once, although no more pods are ready")
		}
	}
	for _, p := range w.Ledger.Export(DefaultBudget())[0].Pods {
		if p.Failed != nil && p.Failed.Ready != 0 {
			t.Errorf("%d ready pods are stored", p.Failed.Ready)
		}
	}
}
