// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
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
		"its query has no answer":   {state: rollout.State{Phase: rollout.Watching, Pod: "b", UID: "b", Missed: rollout.NotKnownYet}, want: decision.AwaitingCanary},
		"its query does not hold":   {state: rollout.State{Phase: rollout.Watching, Pod: "b", UID: "b", Missed: "it has no value"}, want: decision.ObjectiveMissed},
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

// A query is not known before all that it reads is later than the change, which can be after the duration.
func TestGate_queryReadsLongerThanTheDuration_waitsUntilItCanBeKnown(t *testing.T) {
	for name, g := range map[string]*Gate{"watched": gateOf(rollout.State{Phase: rollout.Watching, Pod: "a", UID: "a", Since: noon}), "chosen now": gateOf(rollout.State{})} {
		first, second := decisionOn(podOf("a", before)), decisionOn(podOf("b", before))
		second.Autoscaler.Canary.Objective = cluster.Objective{Query: "a < 1", Operator: "<", Limit: 1, Span: time.Hour}
		g.Choose(first)
		if r, waits := g.Awaits(second); !waits || !r.Until.Equal(noon.Add(time.Hour)) {
			t.Errorf("%s: waits %t, %s", name, waits, r)
		}
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

// The earlier limit comes back with the earlier requests. It is bounded like each limit by the highest usage, and the pod keeps its QoS class.
func TestHold_earlierLimit_isBoundedAndKeepsTheQoSClass(t *testing.T) {
	const gib = 1 << 30
	memory := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, v) }
	hard := func(v cluster.PodResources) *cluster.Quotas {
		return &cluster.Quotas{List: []cluster.Quota{{Name: "all", Hard: v}}}
	}
	for name, c := range map[string]struct {
		around  policy.Limits
		limits  cluster.Resources // of the earlier size
		changed cluster.Resources // of the canary
		want    int64
	}{
		"nothing bounds it":          {policy.Limits{}, memory(4 * gib), memory(gib / 2), 4 * gib},
		"a LimitRange bounds it":     {policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Max: memory(3 * gib)}}}, memory(4 * gib), memory(gib / 2), 3 * gib},
		"a quota of memory requests": {policy.Limits{Quotas: hard(cluster.PodResources{Requests: memory(100 * gib)})}, memory(4 * gib), memory(gib / 2), 4 * gib},
		"a quota of memory limits":   {policy.Limits{Quotas: hard(cluster.PodResources{Limits: memory(100 * gib)})}, memory(4 * gib), memory(256 << 20), 2 * gib}, // in proportion
		"quotas are not known":       {policy.Limits{QuotasUnknown: true}, memory(4 * gib), memory(256 << 20), 2 * gib},
		"CPU is as if Guaranteed":    {policy.Limits{}, cluster.Amounts(1000, gib), cluster.Amounts(100, gib/2), gib + 4096},
		"Guaranteed":                 {policy.Limits{}, cluster.Amounts(1000, gib), after, gib},
	} {
		old := podOf("a", before)
		old.Containers[0].Limits = c.limits
		s := rollout.State{}.Start(noon, old, sizeOf(after), false)
		s.Phase, s.Until = rollout.Held, noon.Add(time.Hour)
		failed := podOf("a", after)
		failed.Containers[0].Limits = c.changed
		a := &cluster.Autoscaler{
			Canary: cluster.Canary{On: true}, Mode: cluster.InPlaceOrRecreate, MemoryLimits: cluster.LimitRule{Peaks: true},
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: after, Target: after, Upper: after}, MemoryLimit: gib / 2, MemoryPeak: 100 << 20}},
		}
		b := Book{Now: noon, States: map[cluster.Workload]rollout.State{web: s}}
		fits := policy.Fit(b.Hold(a, failed), c.around, failed)
		if len(fits) != 1 || fits[0].Requests != before || fits[0].Limits.Memory != c.want {
			t.Errorf("%s: %+v, want a limit of %d MiB", name, fits, c.want>>20)
		}
		if change.ChangesQoS(c.around, failed, fits) {
			t.Errorf("%s: the QoS class changes with %+v", name, fits)
		}
		if r := admissible.Refused(c.around, failed, fits); r.Refused() {
			t.Errorf("%s: refused, %s", name, r)
		}
	}
}
