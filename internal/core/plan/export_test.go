// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rescue"
)

// restored returns a ledger after a restart.
func restored(now time.Time, l *ledger.Ledger, b Budget) *ledger.Ledger {
	next := ledger.New()
	next.Restore(now, l.Export(b.Delays))
	return next
}

// summary returns the decisions of a pass by pod. The order of actions of different namespaces is not part of it.
func summary(now time.Time, w World, l *ledger.Ledger, b Budget) []string {
	w.Ledger = l
	out := []string{}
	for _, d := range Plan(now, w, b) {
		out = append(out, fmt.Sprint(d.Pod.Key, " ", d.Pod.UID, " ", d.Do, " ", d.Fallback, ": ", reasonData(d.Reason)))
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
			if j := slices.Index(w.Pods, p); j >= 0 { // both are views of one watch
				w.Pods[j] = &q
			}
		}
	}
}

// drawCrashes draws workloads whose pods are OOM-killed again and again behind PodDisruptionBudgets.
func drawCrashes(t *rapid.T) (World, Budget) {
	w, b := drawBusyWorld(t)
	b.Rescue = rapid.SampledFrom([]rescue.Mode{rescue.ByDeletion, rescue.ByDeletion, rescue.ByEviction}).Draw(t, "rescue")
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
			q.OwnVolume = rapid.IntRange(0, 5).Draw(t, "local data") == 0
			q.Containers[0].Exit = &cluster.Exit{
				OOM: true, Now: true, Kills: uint8(rapid.IntRange(1, 6).Draw(t, "kills")), Started: noon.Add(-2 * time.Minute), Finished: noon.Add(-time.Minute),
			}
		}
		w.Budgets[g.Autoscaler.Namespace] = []cluster.DisruptionBudget{{
			Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Values: []string{"web"}}}},
			Healthy: 0, Desired: int32(rapid.IntRange(1, 3).Draw(t, "desired")), Current: true,
		}}
	}
	return w, b
}

// The drawn histories contain the records of all features, so that the test below covers them. The seeds are fixed: some records are
// rare, so a run with random seeds would sometimes have none of them.
func TestDrawCrashesAndFullNodes_histories_haveDeletionsAndShortages(t *testing.T) {
	type records struct{ deletions, refusedDeletions, parts int }
	histories := rapid.Custom(func(t *rapid.T) (found records) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawFullNodes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		for range 3 {
			p := Begin(noon, w, b)
			outcomes(t, p)
		}
		for _, s := range w.Ledger.Export(b.Delays) {
			if s.Deletion != nil {
				found.deletions++
			}
			for _, p := range s.Pods {
				if p.Do == decision.Delete {
					found.refusedDeletions++
				}
			}
			for _, x := range s.Shortages {
				found.parts += x.Parts
			}
		}
		return found
	})
	var all records
	for seed := range 100 {
		found := histories.Example(seed)
		all.deletions += found.deletions
		all.refusedDeletions += found.refusedDeletions
		all.parts += found.parts
	}
	if least := min(all.deletions, all.refusedDeletions, all.parts); least < 2 {
		t.Errorf("%+v, want at least two of each", all)
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
			if slices.ContainsFunc(p.Decisions(), func(d decision.Decision) bool { return d.Reason.Code == decision.RoomReserved }) {
				return // since when it waits for the room of others is not stored: it waits for at most 5 minutes more
			}
			if slices.ContainsFunc(p.Decisions(), func(d decision.Decision) bool {
				r, _ := w.Ledger.LastFailure(d.Pod, decision.Evict)
				return r.Unconfirmed
			}) {
				return // whether a budget has counted the last ready pod is not stored: the next attempt waits for the end of its back-off
			}
			drawChanges(t, now, w, down)
			after := restored(now, w.Ledger, b)
			if diff := gocmp.Diff(w.Ledger.Export(b.Delays), after.Export(b.Delays)); diff != "" {
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
		states := w.Ledger.Export(b.Delays)
		for i := range states {
			states[i].ActingSince = rapid.SampledFrom([]time.Time{{}, noon, noon.Add(1e6 * time.Hour)}).Draw(t, "acting")
		}
		after := ledger.New()
		after.Restore(now, states)
		for _, s := range after.Export(b.Delays) {
			for _, at := range append([]time.Time{s.LastAction()}, attempts(s)...) {
				if at.After(now) {
					t.Fatalf("%v has a time after now: %v", s.Workload, at)
				}
			}
		}
		longest := max(b.BackoffMax, b.RefusalMax, attempt.WatchDelay)
		w.Ledger = after
		for _, d := range Plan(now.Add(longest), w, b) {
			if fromLedger(d.Reason) {
				t.Fatalf("%s is blocked after %v: %s", d.Pod.Key, longest, reasonData(d.Reason))
			}
		}
	})
}

// fromLedger reports whether a reason is due to an earlier action. The times of other reasons are due to the ages and states of objects.
func fromLedger(r decision.Reason) bool {
	ofObjects := []decision.ReasonCode{decision.PodTooYoung, decision.AutoscalerTooYoung, decision.Boosted, decision.NotReady, decision.ResizeRunning, decision.RoomReserved}
	return r.Code == decision.AlreadyEvicted || !r.Until.IsZero() && !slices.Contains(ofObjects, r.Code)
}

func attempts(s ledger.State) (out []time.Time) {
	for _, p := range s.Pods {
		out = append(out, p.At)
	}
	return out
}

func TestLedger_updaterEndedWhileActing_changesNoPodOfTheWorkloadUntilTheWatchMustShowIt(t *testing.T) {
	w, _ := shrinking(3)
	web := w.Governed[0].Pods[0].Top
	w.Ledger.Restore(noon, []ledger.State{{Workload: web, ActingSince: noon}})
	for _, x := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {attempt.WatchDelay - time.Second, 0}, {attempt.WatchDelay, 1}} {
		if ds := evictions(Begin(noon.Add(x.after), w, DefaultBudget())); len(ds) != x.want {
			t.Errorf("%d evictions after %v, want %d", len(ds), x.after, x.want)
		}
	}
	for _, d := range Begin(noon, w, DefaultBudget()).Decisions() {
		if d.Reason.Code != decision.Interrupted {
			t.Errorf("%s: %s", d.Pod.Name, d.Reason)
		}
	}
	w.Ledger.Learn(noon.Add(time.Hour), ledger.View{Governed: w.Governed, Scales: w.Scales}, nil)
	if got := w.Ledger.Export(DefaultBudget().Delays); len(got) != 0 {
		t.Errorf("state after the watch delay: %+v, want none", got)
	}
}

// A user of one namespace cannot block the updates of another one for longer than a pass.
func TestLedger_stateNamesPodOfOtherNamespace_isForgotten(t *testing.T) {
	w, _ := shrinking(3)
	foreign := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "attacker", Name: "x"}
	s := ledger.State{Workload: foreign}
	for _, p := range w.Governed[0].Pods {
		s.Pods = append(s.Pods, ledger.PodState{UID: p.UID, Do: decision.Evict, At: noon},
			ledger.PodState{UID: p.UID, Do: decision.Evict, At: noon, Attempts: 1000, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: decision.Denied}}},
			ledger.PodState{UID: p.UID, Do: decision.Delete, At: noon, Attempts: 1000, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: decision.Denied}}})
		s.Shortages = append(s.Shortages, ledger.ShortageState{UID: p.UID, Since: noon, Parts: 1})
	}
	w.Ledger.Restore(noon, []ledger.State{s})
	first := Begin(noon, w, DefaultBudget())
	first.Learn()
	if ds := evictions(Begin(noon.Add(time.Minute), w, DefaultBudget())); len(ds) != 1 {
		t.Errorf("%d evictions after a pass, want 1", len(ds))
	}
	if got := w.Ledger.Export(DefaultBudget().Delays); len(got) != 0 {
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
	b := DefaultBudget()
	b.Tolerance = 1
	first := Begin(noon, w, b)
	ds := evictions(first)
	if len(ds) != 2 {
		t.Fatalf("%d evictions, want 2", len(ds))
	}
	first.Done(ds[0])
	first.Refused(ds[1], decision.Refusal{Kind: decision.DeniedByBudget})
	for _, d := range evictions(Begin(noon.Add(30*time.Second), w, b)) {
		if d.Pod.UID == ds[1].Pod.UID {
			t.Error("the refused eviction is tried again at once, although no more pods are ready")
		}
	}
	for _, p := range w.Ledger.Export(DefaultBudget().Delays)[0].Pods {
		if p.Failed != nil && p.Failed.Ready != 0 {
			t.Errorf("%d ready pods are stored", p.Failed.Ready)
		}
	}
}
