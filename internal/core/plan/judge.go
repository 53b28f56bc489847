// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
)

// judge makes the decision to leave a pod, with its recommended requests and the reason why it should change, if there is one.
func (s *pass) judge(a *cluster.Autoscaler, p *cluster.Pod) entry {
	s.made = append(s.made, decision.Decision{Pod: p, Autoscaler: a})
	d := entry{Decision: &s.made[len(s.made)-1], refused: s.w.Ledger.LastFailureAt(p)}
	boosted := s.b.StartupBoost && p.IsBoosted() && !(a.Mode.Updates() && s.canaries.IsFailed(a, p)) // which is never ready, so its boost would not end
	switch {
	case !a.Mode.Updates() && !boosted:
		d.Reason = decision.Reason{Code: decision.ModeOff, Text: a.Mode.String()}
		return d
	case a.Mode == cluster.InPlace && !s.b.InPlace && !boosted:
		d.Reason = decision.Reason{Code: decision.GateOff, Text: a.Mode.String()}
		return d
	}
	a = s.canaries.Hold(a, p)
	d.With = policy.Fit(a, s.w.LimitsOf(p), p)
	switch {
	case boosted:
		s.judgeBoosted(&d)
	case len(d.With) == 0:
		d.Reason = s.leftToHPA(a, p, decision.Reason{Code: decision.NoAdvice})
	case p.Controller.IsZero():
		d.Reason = decision.Reason{Code: decision.NoController}
	case s.w.Ledger.IsEvicted(s.now, p):
		d.Reason = decision.Reason{Code: decision.AlreadyEvicted}
	case p.Node == "":
		s.judgeUnscheduled(&d)
	default:
		v := need.Of(s.now, &s.b.Rules, a, p, d.With)
		d.Wanted, d.Reason, d.Priority = v.Wanted, v.Instead, v.Priority
		if rest, incomplete := s.occupancy.Incomplete(d.Decision); incomplete && d.Wanted.Code == decision.Fits {
			d.Wanted = rest
		}
		s.judgeLargerNode(&d, &v)
		s.rescues.Select(d.Decision)
		if d.Wanted.Code == decision.Fits {
			d.Reason = s.leftToHPA(a, p, d.Reason)
		}
	}
	return d
}

// judgeUnscheduled judges a pod without a node. Such a pod cannot be resized. A pod that fits on no node because of an earlier
// recommendation is replaced if its recommendation is smaller now (W-15 in docs/migrate.md). A pod that fits on a node is replaced only if
// the difference justifies the loss of its position in the scheduler's queue.
func (s *pass) judgeUnscheduled(d *entry) {
	p := d.Pod
	t := need.Compare(p, d.With)
	d.Priority = t.Priority()
	placeable := s.sizes.Fit(p, change.Total(p, nil))
	smaller := change.Shrinks(p, d.With)
	switch {
	case s.b.UpstreamRules:
		d.Reason = decision.Reason{Code: decision.Unscheduled}
	case s.now.Before(p.Created.Add(s.b.PendingFor)):
		d.Reason = decision.Reason{Code: decision.Unscheduled, Until: p.Created.Add(s.b.PendingFor)}
	case smaller && s.sizes.Fit(p, change.Total(p, d.With)) && (!placeable || d.Priority.Diff >= s.b.Threshold):
		d.Wanted = t.Largest
		d.Wanted.Code, d.Wanted.Container = decision.TooBigToPlace, need.NameUnlessSole(p)(t.Largest.Container)
	case !placeable:
		d.Reason = decision.Reason{Code: decision.NoNodeFits, Text: change.Total(p, nil).String()}
	default:
		d.Reason = decision.Reason{Code: decision.Unscheduled}
	}
}

// rescueBoosted makes a pod whose boost is active change if a container was OOM-killed before the pod was ready, and gets more memory. The
// pod keeps the CPU of its boost.
func (s *pass) rescueBoosted(d *entry, fits []policy.Fitted) bool {
	p, mode := d.Pod, d.Autoscaler.Mode
	if !mode.Updates() || mode == cluster.InPlace && !s.b.InPlace || !s.counter.Health(p).IsDown() ||
		p.Node == "" || p.Controller.IsZero() || s.w.Ledger.IsEvicted(s.now, p) {
		return false
	}
	d.With = slices.Clone(fits)
	for i := range d.With {
		f := &d.With[i]
		if c := p.Container(f.Container); c.Boosted != nil {
			requests, limits := c.Running()
			f.Requests = f.Requests.Unset(cluster.CPU).Or(requests.Only(cluster.Set(0).With(cluster.CPU)))
			f.Limits = f.Limits.Unset(cluster.CPU).Or(limits.Only(cluster.Set(0).With(cluster.CPU)))
		}
	}
	admissible.Adjust(s.w.LimitsOf(p), p, d.With)
	s.rescues.Select(d.Decision)
	if !d.Rescue {
		d.With = nil
		return false
	}
	d.Priority = need.Compare(p, d.With).Priority()
	return true
}

// judgeBoosted judges a pod with a CPU startup boost. While the boost is active, nothing else is changed, except that a pod that is not ready
// because of an OOM kill gets more memory: it would never be ready, so its boost would never end.
func (s *pass) judgeBoosted(d *entry) {
	fits := d.With
	if d.Autoscaler.Mode == cluster.Off {
		fits = nil
	}
	over, until := policy.Unboost(d.Autoscaler, d.Pod, fits, s.now)
	admissible.Adjust(s.w.Limits[d.Pod.Namespace], d.Pod, over)
	d.With = over
	if len(over) == 0 {
		if !s.rescueBoosted(d, fits) {
			d.Reason = decision.Reason{Code: decision.Boosted, Until: until}
		}
		return
	}
	d.Priority = need.Compare(d.Pod, over).Priority()
	for i := range over {
		d.Unboost = append(d.Unboost, over[i].Container)
	}
	had, _ := d.Pod.Container(over[0].Container).Running()
	d.Wanted = decision.Reason{
		Code: decision.BoostOver, Container: need.NameUnlessSole(d.Pod)(over[0].Container),
		Resource: cluster.CPU, From: had.CPU, To: over[0].Requests.CPU,
	}
}

// leftToHPA returns LeftToHPA or HPANotWritten if a pod would change without the HPAs of its workload. Otherwise it returns the given
// reason.
func (s *pass) leftToHPA(a *cluster.Autoscaler, p *cluster.Pod, otherwise decision.Reason) decision.Reason {
	if len(a.Horizontal) == 0 {
		return otherwise
	}
	without := *a
	without.Horizontal = nil
	fits := policy.Fit(&without, s.w.LimitsOf(p), p)
	v := need.Of(s.now, &s.b.Rules, &without, p, fits)
	if v.Wanted.Code == decision.Fits {
		return otherwise
	}
	for i := range fits {
		state, h := policy.HorizontalOf(a, fits[i].Container, v.Wanted.Resource)
		if state == policy.TargetNotWritten {
			return decision.Reason{Code: decision.HPANotWritten}
		}
		if state.IsLeft() {
			r := v.Wanted
			r.Code, r.Text = decision.LeftToHPA, h.HPA.Name
			return r
		}
	}
	return otherwise
}

// fullNode is the share of its node from which a pod counts as scaled down to it. The DaemonSets of the node may have changed since.
const fullNode = 0.9

// judgeLargerNode makes a pod change at once that was scaled down to its node, if a larger node fits its recommendation now. Within its
// bounds, it would have to reach the minimum age otherwise. The replacement can only be scheduled on the larger node, so this happens at
// most once for each size of node.
func (s *pass) judgeLargerNode(d *entry, v *need.Verdict) {
	a, p := d.Autoscaler, d.Pod
	isTooYoung := d.Wanted.Code == decision.Fits && d.Reason.Code == decision.PodTooYoung
	if !isTooYoung || !a.Mode.Evicts() || s.now.Before(a.Created.Add(s.b.Lifetime)) || v.Priority.Diff < s.b.Threshold || !s.isHeldToNode(d) {
		return
	}
	d.Wanted = v.Largest
	d.Wanted.Code, d.Wanted.Text = decision.LargerNode, p.Node
}

// isHeldToNode reports whether a pod has almost all that its node can give to a pod, and its recommendation fits only on a larger node,
// which exists.
func (s *pass) isHeldToNode(d *entry) bool {
	if s.w.Fleet == nil || d.Pod.Controller.Kind == "DaemonSet" {
		return false
	}
	left, known := s.w.Fleet.Left(d.Pod.Node)
	if !known {
		return false
	}
	has, wants := change.Total(d.Pod, nil), change.Total(d.Pod, d.With)
	for _, res := range cluster.All {
		isFull := float64(has.Amount(res)) >= fullNode*float64(left.Amount(res))
		if isFull && wants.Amount(res) > left.Amount(res) && wants.Amount(res) > has.Amount(res) {
			sizes := s.w.Fleet.Of(d.Pod)
			return sizes != nil && len(sizes.Largest) > 0 && sizes.Hold(wants)
		}
	}
	return false
}
