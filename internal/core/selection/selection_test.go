// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/canary"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// unbounded are no bounds of the size of a pod.
type unbounded struct{}

func (unbounded) LimitsOf(*cluster.Pod) policy.Limits { return policy.Limits{} }

// scene returns a selector, and a pod with 100 millicores and 1 GiB whose recommendation is 400 millicores and 1 GiB.
func scene() (*Selector, *decision.Decision) {
	nodes := []cluster.Node{{Name: "n", Ready: true, Allocatable: cluster.Amounts(1000, 4<<30)}}
	rules := &need.Rules{Threshold: 0.1, Lifetime: 12 * time.Hour, QuickOOM: 10 * time.Minute}
	l, sizes := ledger.New(), placement.SizesOf(nodes, nil, nil, nil)
	counter := &disruption.Counter{Now: noon, Limits: &disruption.Limits{StuckFor: 10 * time.Minute}, Need: rules, Ledger: l}
	s := &Selector{
		Now: noon, Need: rules, InPlace: true, StartupBoost: true, World: unbounded{}, Sizes: sizes, Ledger: l,
		Canaries:  &canary.Book{Now: noon, States: map[cluster.Workload]rollout.State{}},
		Occupancy: &occupancy.Book{Now: noon, MakeRoom: room.Split, Ledger: l},
		Rescues:   &rescue.Book{Mode: rescue.ByEviction, Counter: counter},
	}
	web := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"}
	return s, &decision.Decision{
		Pod: &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: "web-0"}, UID: "1", Controller: web, Top: web, Node: "n", Phase: cluster.Running, Ready: true,
			Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 1<<30)}},
		},
		Autoscaler: &cluster.Autoscaler{Mode: cluster.InPlaceOrRecreate, Created: noon.Add(-1000 * time.Hour), Advice: []cluster.Advice{adviceOf(400, 1<<30)}},
	}
}

// adviceOf returns a recommendation with bounds of half and twice the target.
func adviceOf(cpu, memory int64) cluster.Advice {
	return cluster.Advice{Container: "app", Estimate: cluster.Estimate{
		Target: cluster.Amounts(cpu, memory), Lower: cluster.Amounts(cpu/2, memory/2), Upper: cluster.Amounts(cpu*2, memory*2),
	}}
}

// withKilledInit has an init container that was OOM-killed at its limit of 64 MiB before the pod could start, and whose target is 300 MiB.
func withKilledInit(_ *Selector, d *decision.Decision) {
	p := d.Pod
	p.Phase, p.Ready, p.ReadySince = cluster.Pending, false, time.Time{}
	p.Containers[0].Requests = cluster.Amounts(400, 1<<30)
	small := cluster.Amounts(10, 64<<20)
	p.Containers = append(p.Containers, cluster.Container{
		Name: "setup", Role: cluster.Init, Requests: small, Limits: small,
		Exit: &cluster.Exit{OOM: true, Now: true, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)},
	})
	need := cluster.Amounts(10, 300<<20)
	d.Autoscaler.Advice = append(d.Autoscaler.Advice, cluster.Advice{Container: "setup", Estimate: cluster.Estimate{Lower: need, Target: need, Upper: need}})
}

// A pod whose init container is OOM-killed never starts, so its replacement gets the memory. A pod that runs does not need it.
func TestSelector_judge_initContainerIsKilled_replacementIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Selector, *decision.Decision)
		rescue bool
	}{
		"never started":                     {rescue: true},
		"nothing else has a recommendation": {change: func(_ *Selector, d *decision.Decision) { d.Autoscaler.Advice = d.Autoscaler.Advice[1:] }, rescue: true},
		"sized by another component before": {change: func(_ *Selector, d *decision.Decision) { d.Pod.Marks = &cluster.Marks{Observed: new("app")} }, rescue: true},
		"the pod runs":                      {change: func(_ *Selector, d *decision.Decision) { d.Pod.Phase, d.Pod.Ready = cluster.Running, true }},
		"killed long ago": {change: func(_ *Selector, d *decision.Decision) {
			d.Pod.Containers[1].Exit.Now, d.Pod.Containers[1].Exit.Finished = false, noon.Add(-time.Hour)
		}},
		"no more memory": {change: func(_ *Selector, d *decision.Decision) {
			d.Pod.Containers[1].Requests, d.Pod.Containers[1].Limits = cluster.Amounts(10, 300<<20), cluster.Amounts(10, 300<<20)
		}},
		"mode Off for the container": {change: func(_ *Selector, d *decision.Decision) {
			d.Autoscaler.Policies = []cluster.ContainerPolicy{{Container: "setup", Off: true}}
		}},
		"--oom-rescue=off":         {change: func(s *Selector, _ *decision.Decision) { s.Rescues.Mode = rescue.Off }},
		"--updater-rules=upstream": {change: func(s *Selector, _ *decision.Decision) { s.Need.UpstreamRules = true }},
	} {
		s, d := scene()
		withKilledInit(s, d)
		if c.change != nil {
			c.change(s, d)
		}
		s.Judge(d)
		isInit := d.Wanted.Code == decision.OutOfMemory && d.Wanted.Container == "setup" && rescue.OfInit(d)
		if d.Rescue != c.rescue || isInit != c.rescue {
			t.Errorf("%s: rescue %v, wanted %s, with %+v", name, d.Rescue, d.Wanted, d.With)
		}
	}
}

// The replacement of a pod that runs needs the memory of its init container, and a resize does not.
func TestSelector_judge_initContainerNeedsMoreThanTheSum_replacementIsLarger(t *testing.T) {
	s, d := scene()
	withKilledInit(s, d)
	d.Pod.Phase, d.Pod.Ready, d.Pod.ReadySince = cluster.Running, true, noon.Add(-time.Hour)
	d.Pod.Containers[0].Requests = cluster.Amounts(100, 1<<30)
	need := cluster.Amounts(10, 3<<30)
	d.Autoscaler.Advice[1].Estimate = cluster.Estimate{Lower: need, Target: need, Upper: need}
	s.Judge(d)
	if got := change.Total(d.Pod, d.With); got != cluster.Amounts(400, 1<<30) {
		t.Errorf("a resize needs %v", got)
	}
	if got := change.Total(d.Pod, d.Replacement()); got != cluster.Amounts(400, 3<<30) {
		t.Errorf("a replacement needs %v", got)
	}
}

func TestSelector_judge_whetherAPodShouldChange(t *testing.T) {
	unscheduled := func(s *Selector, d *decision.Decision) {
		d.Pod.Node, d.Pod.Phase, d.Pod.Ready = "", cluster.Pending, false
		d.Pod.Containers[0].Requests = cluster.Amounts(2000, 1<<30)
	}
	boosted := func(s *Selector, d *decision.Decision) {
		d.Pod.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(100, 1<<30)}
		d.Pod.Containers[0].Requests = cluster.Amounts(800, 1<<30)
	}
	killed := func(s *Selector, d *decision.Decision) {
		d.Pod.Ready = false
		d.Pod.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)}
		d.Autoscaler.Advice[0] = adviceOf(400, 2<<30)
	}
	for name, c := range map[string]struct {
		change []func(*Selector, *decision.Decision)
		wanted decision.ReasonCode // Fits: it should not change
		reason decision.ReasonCode // if it should not
	}{
		"below the range": {wanted: decision.BelowRange},
		"mode is off":     {change: []func(*Selector, *decision.Decision){func(_ *Selector, d *decision.Decision) { d.Autoscaler.Mode = cluster.Off }}, reason: decision.ModeOff},
		"feature gate is off": {change: []func(*Selector, *decision.Decision){func(s *Selector, d *decision.Decision) {
			s.InPlace, d.Autoscaler.Mode = false, cluster.InPlace
		}}, reason: decision.GateOff},
		"no recommendation": {change: []func(*Selector, *decision.Decision){func(_ *Selector, d *decision.Decision) { d.Autoscaler.Advice = nil }}, reason: decision.NoAdvice},
		"no controller":     {change: []func(*Selector, *decision.Decision){func(_ *Selector, d *decision.Decision) { d.Pod.Controller = cluster.Workload{} }}, reason: decision.NoController},
		"already evicted": {change: []func(*Selector, *decision.Decision){func(s *Selector, d *decision.Decision) {
			s.Ledger.Done(noon, ledger.Attempt{Pod: d.Pod, Do: decision.Evict})
		}}, reason: decision.AlreadyEvicted},
		"within its range, young": {change: []func(*Selector, *decision.Decision){func(_ *Selector, d *decision.Decision) {
			d.Autoscaler.Advice[0] = adviceOf(150, 1<<30)
		}}, reason: decision.PodTooYoung},
		"has a part of its increase": {change: []func(*Selector, *decision.Decision){func(s *Selector, d *decision.Decision) {
			d.Autoscaler.Advice[0] = adviceOf(150, 1<<30)
			s.Ledger.Done(noon, ledger.Attempt{Pod: d.Pod, Do: decision.Resize, Part: true})
		}}, wanted: decision.Incomplete},
		"has a part of its increase, and is old": {change: []func(*Selector, *decision.Decision){func(s *Selector, d *decision.Decision) {
			d.Autoscaler.Advice[0] = adviceOf(150, 1<<30)
			d.Pod.Started = noon.Add(-48 * time.Hour)
			s.Ledger.Done(noon, ledger.Attempt{Pod: d.Pod, Do: decision.Resize, Part: true})
		}}, wanted: decision.Incomplete},
		"is old": {change: []func(*Selector, *decision.Decision){func(_ *Selector, d *decision.Decision) {
			d.Autoscaler.Advice[0] = adviceOf(150, 1<<30)
			d.Pod.Started = noon.Add(-48 * time.Hour)
		}}, wanted: decision.Drifted},
		"size was reverted": {change: []func(*Selector, *decision.Decision){func(s *Selector, d *decision.Decision) {
			d.Autoscaler.Canary.On = true
			size := []rollout.Size{{Container: "app", Requests: cluster.Amounts(100, 1<<30)}}
			s.Canaries.States[d.Pod.Top] = rollout.State{Phase: rollout.Held, Until: noon.Add(time.Hour), Before: size}
		}}, reason: decision.Fits},
		"OOM-killed": {change: []func(*Selector, *decision.Decision){killed}, wanted: decision.NodeOutOfMemory},

		"too large for every node": {change: []func(*Selector, *decision.Decision){unscheduled}, wanted: decision.TooBigToPlace},
		"unscheduled since now": {change: []func(*Selector, *decision.Decision){unscheduled, func(_ *Selector, d *decision.Decision) {
			d.Pod.Created = noon
		}}, reason: decision.Unscheduled},
		"would not fit either": {change: []func(*Selector, *decision.Decision){unscheduled, func(_ *Selector, d *decision.Decision) {
			d.Autoscaler.Advice[0] = adviceOf(1500, 1<<30)
		}}, reason: decision.NoNodeFits},
		"unscheduled, fits": {change: []func(*Selector, *decision.Decision){unscheduled, func(_ *Selector, d *decision.Decision) {
			d.Pod.Containers[0].Requests = cluster.Amounts(100, 1<<30)
		}}, reason: decision.Unscheduled},
		"unscheduled, upstream": {change: []func(*Selector, *decision.Decision){unscheduled, func(s *Selector, _ *decision.Decision) { s.Need.UpstreamRules = true }}, reason: decision.Unscheduled},

		"boost is over":          {change: []func(*Selector, *decision.Decision){boosted}, wanted: decision.BoostOver},
		"boost is over, off":     {change: []func(*Selector, *decision.Decision){boosted, func(_ *Selector, d *decision.Decision) { d.Autoscaler.Mode = cluster.Off }}, wanted: decision.BoostOver},
		"boost is active":        {change: []func(*Selector, *decision.Decision){boosted, func(_ *Selector, d *decision.Decision) { d.Pod.Ready = false }}, reason: decision.Boosted},
		"OOM-killed while boost": {change: []func(*Selector, *decision.Decision){boosted, killed}, wanted: decision.NodeOutOfMemory},
	} {
		s, d := scene()
		for _, change := range c.change {
			change(s, d)
		}
		s.Judge(d)
		if d.Wanted.Code != c.wanted || c.wanted == decision.Fits && d.Reason.Code != c.reason || d.Do != decision.Leave {
			t.Errorf("%s: wanted %s, reason %s (%s)", name, d.Wanted, d.Reason, d.Do)
		}
	}
}
