// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web    = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	before = cluster.Amounts(1000, 1<<30)
	after  = cluster.Amounts(100, 128<<20)
)

func sizeOf(requests cluster.Resources) []rollout.Size {
	return []rollout.Size{{Container: "app", Requests: requests}}
}

// podOf returns a ready pod of the workload.
func podOf(name string, requests cluster.Resources) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: web, Top: web, Ready: true,
		Containers: []cluster.Container{{Name: "app", Requests: requests}},
	}
}

// decisionOn returns the decision on a pod that should get the new size.
func decisionOn(p *cluster.Pod) *decision.Decision {
	return &decision.Decision{
		Pod: p, Autoscaler: &cluster.Autoscaler{Canary: cluster.Canary{On: true, Watch: 10 * time.Minute}},
		With: []policy.Fitted{{Container: "app", Requests: after}}, Wanted: decision.Reason{Code: decision.AboveRange},
	}
}

func gateOf(s rollout.State) *Gate {
	return &Gate{Book: &Book{Now: noon, States: map[cluster.Workload]rollout.State{web: s}}}
}

func TestGate_awaits_byPhase(t *testing.T) {
	oomKilled := decision.Reason{Code: decision.OutOfMemory}
	for name, c := range map[string]struct {
		state  rollout.State
		off    bool
		wanted decision.Reason
		want   decision.ReasonCode // Fits: it does not wait
		need   bool
	}{
		"no canary yet":             {need: true},
		"without canaries":          {off: true},
		"no canary, makes room":     {wanted: decision.Reason{Code: decision.Fits}, want: decision.AwaitingCanary, need: true},
		"end of a boost":            {wanted: decision.Reason{Code: decision.BoostOver}},
		"another pod is chosen":     {state: rollout.State{Phase: rollout.Starting, Pod: "b", UID: "b"}, want: decision.AwaitingCanary},
		"the pod is chosen":         {state: rollout.State{Phase: rollout.Starting, Pod: "a", UID: "a"}, need: true},
		"a canary is watched":       {state: rollout.State{Phase: rollout.Watching, Pod: "b", UID: "b"}, want: decision.AwaitingCanary},
		"watched, OOM-killed":       {state: rollout.State{Phase: rollout.Watching, Pod: "b", UID: "b"}, wanted: oomKilled},
		"the size was accepted":     {state: rollout.State{Phase: rollout.Accepted, After: sizeOf(after)}},
		"another size was accepted": {state: rollout.State{Phase: rollout.Accepted, After: sizeOf(before)}, need: true},
		"the size was reverted":     {state: rollout.State{Phase: rollout.Held, Before: sizeOf(before), After: sizeOf(after)}, want: decision.Reverted},
	} {
		g, d := gateOf(c.state), decisionOn(podOf("a", before))
		d.Autoscaler.Canary.On = !c.off
		if c.wanted != (decision.Reason{}) || name == "no canary, makes room" {
			d.Wanted = c.wanted
		}
		r, waits := g.Awaits(d)
		if waits != (c.want != decision.Fits) || waits && r.Code != c.want {
			t.Errorf("%s: waits %t, %s", name, waits, r)
		}
		if got := g.IsNeeded(d); got != c.need {
			t.Errorf("%s: needs a canary: %t", name, got)
		}
	}
}

func TestGate_choose_oneCanaryUntilItEnds(t *testing.T) {
	g := gateOf(rollout.State{})
	first, second := decisionOn(podOf("a", before)), decisionOn(podOf("b", before))
	for range 2 {
		if !g.Choose(first) || g.Choose(second) {
			t.Error("the first pod is not the only canary")
		}
	}
	if _, waits := g.Awaits(first); waits {
		t.Error("the canary waits for itself")
	}
	if r, waits := g.Awaits(second); !waits || r.Text != "a" || !r.Until.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("the second pod waits: %t, %+v", waits, r)
	}
	g.End(web)
	if !g.Choose(second) {
		t.Error("the second pod is not the canary after the first has ended")
	}
	if gateOf(rollout.State{Phase: rollout.Watching, UID: "b"}).Choose(first) {
		t.Error("a second canary beside one that is watched")
	}
}

func TestGate_noWayBack_onlyAcceptedSizes(t *testing.T) {
	g, d := gateOf(rollout.State{}), decisionOn(podOf("a", before))
	if _, blocked := g.NoWayBack(d); blocked {
		t.Error("blocked although the ledger is stored")
	}
	g.NotStored = true
	if r, blocked := g.NoWayBack(d); !blocked || r.Code != decision.NoWayBack {
		t.Errorf("blocked: %t, %s", blocked, r)
	}
	g.States[web] = rollout.State{Phase: rollout.Accepted, After: sizeOf(after)}
	if _, blocked := g.NoWayBack(d); blocked {
		t.Error("an accepted size is blocked")
	}
}

func TestBook_revertedSize_previousOneApplies(t *testing.T) {
	b := gateOf(rollout.State{Phase: rollout.Held, Until: noon.Add(time.Hour), Before: sizeOf(before), After: sizeOf(after)}).Book
	p := podOf("a", after)
	a := &cluster.Autoscaler{Canary: cluster.Canary{On: true}, Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: after}}}}
	if got := b.Hold(a, p).Advice[0].Target; got != before {
		t.Errorf("the recommendation is %v, want %v", got, before)
	}
	if b.IsFailed(a, p) {
		t.Error("a ready pod counts as a failed canary")
	}
	p.Ready = false
	if !b.IsFailed(a, p) {
		t.Error("a pod that is not ready with the reverted size is not a failed canary")
	}
	a.Canary.On = false
	if b.Hold(a, p) != a || b.IsFailed(a, p) {
		t.Error("canaries are off, and the size is held")
	}
}
