// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package occupancy

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// shrinkReasons are the reasons to leave a pod that do not prevent a resize that only lowers requests and makes room for another pod.
// A recommendation that is too young is not among them: such a target may be too low.
var shrinkReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.SmallChange: true, decision.BudgetSpent: true, decision.NotReady: true}

// moveReasons are the reasons to leave a pod that do not prevent moving it.
var moveReasons = map[decision.ReasonCode]bool{decision.Fits: true, decision.PodTooYoung: true, decision.AutoscalerTooYoung: true, decision.SmallChange: true, decision.SameSize: true}

// isKilled reports whether a pod has been OOM-killed and is not ready, or gets more memory because of an OOM kill. Such a pod makes no
// room for others.
func isKilled(d *decision.Decision) bool { return d.Rescue || d.Pod.Crash != nil }

// GivesBack reports whether a resize only lowers requests, so that it takes nothing out of service if it restarts no container.
func (b *Book) GivesBack(d *decision.Decision) bool {
	return b.Allowed(d.Autoscaler) != room.Off && d.Wanted.Code != decision.BoostOver && change.Shrinks(d.Pod, d.With)
}

// CanShrink reports whether a pod that is left can be resized in place to its lower target: no container restarts, and the kubelet
// has no other resize of the pod to do.
func (b *Book) CanShrink(d *decision.Decision) bool {
	p := d.Pod
	mode := d.Autoscaler.Mode
	if d.Do != decision.Leave || isKilled(d) || !shrinkReasons[d.Reason.Code] || b.Allowed(d.Autoscaler) == room.Off || len(d.With) == 0 ||
		!mode.Resizes() || mode.OnlyInPlace() && !b.InPlace || p.IsBoosted() {
		return false
	}
	return p.Phase == cluster.Running && p.IsAnyRunning() && !p.IsResizing() && !change.IsAsked(p, d.With) &&
		change.Shrinks(p, d.With) && !change.Restarts(p, d.With) && !change.ChangesQoS(b.Limits[p.Namespace], p, d.With)
}

// ShrinkReason returns the reason to resize a pod to its lower target, which makes room for another pod.
func ShrinkReason(d *decision.Decision, other string) decision.Reason {
	r := About(decision.MakesRoom, d.Pod, other)
	for x := range change.Pairs(d.Pod, d.With, false) {
		if !x.Limit && r.Resource == 0 && change.Compare(x.Resource, x.To, x.From) < 0 {
			r.Resource, r.From, r.To, r.Container = x.Resource, x.From, x.To, need.NameUnlessSole(d.Pod)(x.Container.Name)
		}
	}
	return r
}

// CanMove reports whether the replacement of a pod can run on another node: to make room for another pod, or because its own resize waits for
// room.
func (b *Book) CanMove(d *decision.Decision) bool {
	return b.Allowed(d.Autoscaler) >= room.Move && b.CanLeave(d)
}

// CanLeave reports whether the replacement of a pod can run on another node, if its autoscaler allows moves.
func (b *Book) CanLeave(d *decision.Decision) bool {
	p := d.Pod
	itself := b.Needs(d)
	if !d.Autoscaler.Mode.Evicts() || len(d.With) == 0 || d.Do != decision.Leave || !itself && !moveReasons[d.Reason.Code] {
		return false
	}
	if p.LocalData || p.Tied || p.Overhead || p.Place == cluster.Somewhere || p.Tolerance >= cluster.Unlisted || p.Phase != cluster.Running || !p.Ready ||
		p.Controller.Kind == "DaemonSet" || p.Controller.Kind == "Job" || p.IsBoosted() {
		return false
	}
	if itself {
		return p.IsDeferred()
	}
	return !isKilled(d) && !p.IsResizing()
}

// Part returns the requests and limits of the containers for growth by a part: each container gets the same share of its increase
// of a resource. No container shrinks. It returns false if the API server would refuse them, or they change nothing.
func (b *Book) Part(d *decision.Decision, step room.Step) ([]policy.Fitted, bool) {
	p := d.Pod
	out := slices.Clone(d.With)
	for i := range out {
		f := &out[i]
		c := p.Container(f.Container)
		if c == nil {
			return nil, false
		}
		requests, limits := c.Running()
		for _, res := range cluster.All {
			share := shareOf(res, p, d.With, step)
			unit := unitOf(d.Autoscaler, c.Name, res)
			f.Requests = growBy(res, requests, f.Requests, share, unit)
			f.Limits = growBy(res, limits, f.Limits, share, unit)
		}
	}
	size := room.Of(change.Total(p, out)).Sub(step.From)
	if !step.To.Sub(step.From).Holds(size) || !change.Grows(p, out) || change.IsAsked(p, out) ||
		change.ChangesQoS(b.Limits[p.Namespace], p, out) || admissible.Refused(b.Limits[p.Namespace], p, out).Refused() {
		return nil, false
	}
	return out, true
}

// shareOf returns the fraction of the increases of the containers that the pod gets now.
func shareOf(res cluster.Resource, p *cluster.Pod, with []policy.Fitted, step room.Step) float64 {
	given := cluster.Pick(res, step.To.CPU-step.From.CPU, step.To.Memory-step.From.Memory)
	increase := int64(0)
	for x := range change.Pairs(p, with, false) {
		if !x.Limit && x.Resource == res {
			increase += max(0, x.To-x.From)
		}
	}
	if increase == 0 {
		return 0
	}
	return min(1, float64(given)/float64(increase))
}

const mebibyte = 1 << 20

// unitOf returns the unit to which amounts of a container are rounded down: whole cores if its autoscaler wants that.
func unitOf(a *cluster.Autoscaler, container string, res cluster.Resource) int64 {
	switch {
	case res == cluster.Memory:
		return mebibyte
	case slices.Contains(a.IntegerCPU, container):
		return 1000
	}
	return 1
}

// growBy returns wanted amounts with one resource set to what the container has and a share of its increase. Amounts that would
// shrink stay as they are.
func growBy(res cluster.Resource, had, wanted cluster.Resources, share float64, unit int64) cluster.Resources {
	to, ok := wanted.Get(res)
	if !ok {
		return wanted
	}
	from := had.Amount(res)
	if to <= from || share >= 1 {
		return wanted.Set(res, max(to, from))
	}
	now := from + int64(float64(to-from)*share)
	return wanted.Set(res, max(from, now-now%unit))
}
