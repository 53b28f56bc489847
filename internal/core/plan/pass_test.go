// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
)

// outcomes carries out a pass with drawn outcomes and returns how often each pod was tried, and which pods were changed
// or may have been.
func outcomes(t *rapid.T, p *Pass) (tried map[string]int, down map[*cluster.Pod]decision.Decision) {
	tried, down = map[string]int{}, map[*cluster.Pod]decision.Decision{}
	var todo []decision.Decision
	for _, d := range p.Decisions() {
		if d.Do != decision.Leave {
			todo = append(todo, d)
		}
	}
	for len(todo) > 0 {
		i := rapid.IntRange(0, len(todo)-1).Draw(t, "which") // workers finish in any order
		d := todo[i]
		todo = append(todo[:i:i], todo[i+1:]...)
		tried[fmt.Sprint(d.Do, " ", d.Pod.Key)]++
		kind := rapid.IntRange(-3, int(decision.OutcomeIsUnknown)).Draw(t, "outcome")
		if d.Rescue && d.Do == decision.Evict && rapid.Bool().Draw(t, "budget") {
			kind = int(decision.DeniedByBudget)
		}
		if d.Reason.Part && rapid.IntRange(0, 3).Draw(t, "part") > 0 { // resizes by a part are rare
			kind = -2
		}
		switch kind {
		case -3, -2:
			down[d.Pod] = d
			p.Done(d)
		case -1:
			todo = append(todo, p.Stopped(d, decision.Reason{Code: decision.RateLimited})...)
		default:
			if decision.RefusalKind(kind) == decision.OutcomeIsUnknown {
				down[d.Pod] = d
			}
			todo = append(todo, p.Refused(d, decision.Refusal{Kind: decision.RefusalKind(kind), Text: "no"})...)
		}
	}
	return tried, down
}

// For all outcomes: a pass ends, tries no action twice, keeps the budget with the changes that were or may have been carried out,
// and has a reason for every other decision.
func TestPass_anyOutcomes_budgetIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		if rapid.Bool().Draw(t, "busy") {
			w, b = drawBusyWorld(t)
		}
		now := noon
		for range rapid.IntRange(1, 4).Draw(t, "passes") {
			p := Begin(now, w, b)
			p.Learn()
			tried, down := outcomes(t, p)
			for what, n := range tried {
				if n > 1 {
					t.Fatalf("%s: tried %d times in one pass", what, n)
				}
			}
			checkBudget(t, now, w, b, down)
			for _, d := range p.Decisions() {
				if _, done := down[d.Pod]; (d.Do != decision.Leave) && !done {
					t.Fatalf("%s was not changed, but its decision is to change it: %s", d.Pod.Key, d.Reason)
				}
				if d.Reason.String() == "" {
					t.Fatalf("%s has no reason", d.Pod.Key)
				}
				if g := p.entryOf(d.Pod).group(); d.Do == decision.Leave && d.Reason.Code == decision.BudgetSpent && g.MayChange(p.counter.Health(d.Pod)) {
					t.Fatalf("%s waits for budget, but the budget is not used up", d.Pod.Key)
				}
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "later"))
		}
	})
}

// drawBusyWorld draws workloads whose pods are all ready and all need a change.
func drawBusyWorld(t *rapid.T) (World, Budget) {
	w := workloadsOf(20)
	w.Governed = []cluster.Governed{w.Governed[0], w.Governed[10]}
	for _, g := range w.Governed {
		g.Autoscaler.Mode = rapid.SampledFrom([]cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlace}).Draw(t, "mode")
		for _, p := range g.Pods {
			p.Ready = rapid.IntRange(0, 9).Draw(t, "ready") > 0
		}
	}
	b := DefaultBudget()
	b.InPlace = true
	b.Tolerance = rapid.SampledFrom([]float64{0, 0.3, 0.5, 1}).Draw(t, "tolerance")
	return w, b
}

// checkBudget checks that the pods taken out of service are within the budget of their group.
func checkBudget(t *rapid.T, now time.Time, w World, b Budget, down map[*cluster.Pod]decision.Decision) {
	for _, g := range w.Governed {
		counter := &disruption.Counter{Now: now, Limits: &b.Limits, Need: &b.Rules, Scales: w.Scales, Ledger: w.Ledger}
		for controller, group := range counter.Groups(g.Autoscaler, g.Pods) {
			taken := 0
			for p, d := range down {
				harmless := d.Do == decision.Resize && !change.Restarts(p, d.With) && (b.SkipInPlace || len(d.Unboost) > 0 || b.MakeRoom != room.Off && change.Shrinks(p, d.With))
				if p.Controller == controller && p.Serves() && p.Node != "" && !harmless {
					taken++
				}
			}
			// Those that were evicted in this pass do not count as ready any more.
			before := 0
			for _, p := range g.Pods {
				if p.Controller == controller && p.Live() && p.Node != "" && p.Serves() && !lateBefore(w.Ledger, now, p) {
					before++
				}
			}
			left := before - taken
			if taken > 0 && left < group.Wanted-group.Tolerance && !(group.Tolerance == 0 && taken == 1 && before == group.Wanted) {
				t.Fatalf("%s: %d pods in service, %d taken, %d wanted, %d may be unavailable",
					controller, before, taken, group.Wanted, group.Tolerance)
			}
		}
	}
}

// lateBefore reports whether a pod was evicted in an earlier pass and is still shown.
func lateBefore(l *ledger.Ledger, now time.Time, p *cluster.Pod) bool {
	inThisPass := l.IsEvicted(now.Add(attempt.WatchDelay-1), p)
	return l.IsEvicted(now, p) && !inThisPass
}

// attemptOf returns the attempt to carry out a decision on a pod of the world.
func attemptOf(w World, d decision.Decision) ledger.Attempt {
	own := entry{Decision: &d, scope: &scope{}}
	for _, g := range w.Governed {
		if g.Autoscaler == d.Autoscaler {
			own.scope.newest = slices.MaxFunc(g.Pods, func(a, b *cluster.Pod) int { return a.Created.Compare(b.Created) }).Created
		}
	}
	return own.attempt(noon, d)
}

// A pod without a refused action comes before a pod with one.
func TestPass_refusedBefore_comesLast(t *testing.T) {
	w := workloadsOf(1)
	b := DefaultBudget()
	first := Begin(noon, w, b).Decisions()[0]
	w.Ledger.Refused(noon, attemptOf(w, first), decision.Refusal{Kind: decision.Denied}, 5)
	for _, later := range []time.Duration{time.Second, time.Hour, 24 * time.Hour} {
		if d := Begin(noon.Add(later), w, b).Decisions()[0]; d.Pod == first.Pod {
			t.Errorf("after %v the pod with a refused action comes first", later)
		}
	}
}

// A refused action is tried again, with growing intervals up to a maximum.
func TestLedger_refusals_attemptsInADayAreBounded(t *testing.T) {
	for kind := decision.Denied; kind <= decision.OutcomeIsUnknown; kind++ {
		w := workloadsOf(1)
		for i := range w.Governed[0].Pods[1:] {
			w.Governed[0].Pods[1+i].Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 1<<30)}}
		}
		attempts := 0
		for at := time.Duration(0); at < 24*time.Hour; at += time.Minute {
			p := Begin(noon.Add(at), w, DefaultBudget())
			p.Learn()
			for _, d := range p.Decisions() {
				if d.Do != decision.Leave {
					attempts++
					p.Refused(d, decision.Refusal{Kind: kind, Text: "no"})
				}
			}
		}
		if attempts < 15 || attempts > 30 {
			t.Errorf("kind %d: %d attempts in a day", kind, attempts)
		}
	}
}
