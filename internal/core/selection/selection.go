// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package selection tells which pods should change, to which size, and why. These are the candidates of a pass. Whether a candidate may change now is
// decided elsewhere.
package selection

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/canary"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rescue"
)

// pendingFor is how long a pod may be unscheduled before a smaller replacement is considered.
const pendingFor = 2 * time.Minute

// A Selector judges the pods of a pass.
type Selector struct {
	Now          time.Time
	Need         *need.Rules
	InPlace      bool // update mode InPlace is enabled
	StartupBoost bool // startup boosts are enabled

	World     world
	Fleet     *fleet.Fleet
	Sizes     *placement.Sizes
	Ledger    *ledger.Ledger
	Canaries  *canary.Book
	Occupancy *occupancy.Book
	Rescues   *rescue.Book
}

// A world has the bounds of the size of a pod.
type world interface {
	LimitsOf(*cluster.Pod) policy.Limits
}

// Judge sets the recommended requests of a pod that is left, and the reason why it should change, if there is one.
func (s *Selector) Judge(d *decision.Decision) {
	a := d.Autoscaler
	p := d.Pod
	boosted := s.StartupBoost && p.IsBoosted() && !(a.Mode.Updates() && s.Canaries.IsFailed(a, p)) // which is never ready, so its boost would not end
	switch {
	case !a.Mode.Updates() && !boosted:
		d.Reason = decision.Reason{Code: decision.ModeOff, Text: a.Mode.String()}
		return
	case a.Mode.OnlyInPlace() && !s.InPlace && !boosted:
		d.Reason = decision.Reason{Code: decision.GateOff, Text: a.Mode.String()}
		return
	case a.IsOfUnknownSize(p):
		d.Reason = decision.Reason{Code: decision.NodeSizeUnknown, Text: p.Node}
		return
	}
	a = s.Canaries.Hold(a.For(p), p)
	limits := s.World.LimitsOf(p)
	d.With = policy.Fit(a, limits, p)
	s.judgeInit(d, policy.FitInit(a, limits, p, d.With))
	switch {
	case boosted:
		s.judgeBoosted(d)
	case len(d.With) == 0:
		d.Reason = need.LeftToHPA(s.Now, s.Need, a, limits, p, decision.Reason{Code: decision.NoAdvice})
	case p.Controller.IsZero():
		d.Reason = decision.Reason{Code: decision.NoController}
	case s.Ledger.IsEvicted(s.Now, p):
		d.Reason = decision.Reason{Code: decision.AlreadyEvicted}
	case p.Node == "":
		s.judgeUnscheduled(d)
	default:
		v := need.Of(s.Now, s.Need, a, p, d.With)
		d.Wanted = v.Wanted
		d.Reason = v.Instead
		d.Priority = v.Priority
		isInBounds := d.Wanted.Code == decision.Fits || d.Wanted.Code == decision.Drifted
		if rest, incomplete := s.Occupancy.Incomplete(d); incomplete && isInBounds {
			d.Wanted = rest
		}
		s.judgeLargerNode(d, &v)
		s.Rescues.Select(d)
		if d.Wanted.Code == decision.Fits {
			d.Reason = need.LeftToHPA(s.Now, s.Need, a, limits, p, d.Reason)
		}
	}
}

// judgeInit adds the sizes of the init containers of a replacement if the pod cannot start without them, or if the replacement needs other room.
func (s *Selector) judgeInit(d *decision.Decision, init []policy.Fitted) {
	switch all := append(slices.Clip(d.With), init...); {
	case len(init) == 0 || s.Need.UpstreamRules:
	case s.Rescues.NeedsInit(d, init):
		d.With = all
	case change.Total(d.Pod, all) != change.Total(d.Pod, d.With):
		d.Init = init
	}
}

// judgeUnscheduled judges a pod without a node. Such a pod cannot be resized. A pod that fits on no node because of an earlier
// recommendation is replaced if its recommendation is smaller now (W-15 in docs/migrate.md). A pod that fits on a node is replaced only if
// the difference justifies the loss of its position in the scheduler's queue.
func (s *Selector) judgeUnscheduled(d *decision.Decision) {
	p := d.Pod
	t := need.Compare(p, d.With)
	d.Priority = t.Priority()
	_, placeable := s.Sizes.Fit(p, change.Total(p, nil))
	fits, _ := s.Sizes.Fit(p, change.Total(p, d.With))
	smaller := change.Shrinks(p, d.With)
	switch {
	case s.Need.UpstreamRules:
		d.Reason = decision.Reason{Code: decision.Unscheduled}
	case s.Now.Before(p.Created.Add(pendingFor)):
		d.Reason = decision.Reason{Code: decision.Unscheduled, Until: p.Created.Add(pendingFor)}
	case smaller && fits && (!placeable || d.Priority.Diff >= d.Autoscaler.Rules.MinChange.Or(s.Need.Threshold)):
		d.Wanted = t.Largest
		d.Wanted.Code, d.Wanted.Container = decision.TooBigToPlace, need.NameUnlessSole(p)(t.Largest.Container)
	case !placeable:
		d.Reason = s.Sizes.Misfit(p, change.Total(p, nil))
	default:
		d.Reason = decision.Reason{Code: decision.Unscheduled}
	}
}

// rescueBoosted makes a pod whose boost is active change if a container was OOM-killed before the pod was ready, and gets more memory. The
// pod keeps the CPU of its boost.
func (s *Selector) rescueBoosted(d *decision.Decision, fits []policy.Fitted) bool {
	p := d.Pod
	mode := d.Autoscaler.Mode
	if !mode.Updates() || mode.OnlyInPlace() && !s.InPlace || !s.Rescues.Counter.Health(p).IsDown() ||
		p.Node == "" || p.Controller.IsZero() || s.Ledger.IsEvicted(s.Now, p) {
		return false
	}
	d.With = policy.KeepBoost(p, fits)
	admissible.Adjust(s.World.LimitsOf(p), p, d.With)
	s.Rescues.Select(d)
	if !d.Rescue {
		d.With = nil
		return false
	}
	d.Priority = need.Compare(p, d.With).Priority()
	return true
}

// judgeBoosted judges a pod with a CPU startup boost. While the boost is active, nothing else is changed, except that a pod that is not ready
// because of an OOM kill gets more memory: it would never be ready, so its boost would never end.
func (s *Selector) judgeBoosted(d *decision.Decision) {
	fits := d.With
	if !d.Autoscaler.Mode.Applies() {
		fits = nil
	}
	over, until := policy.Unboost(d.Autoscaler, d.Pod, fits, s.Now)
	last, _ := s.Ledger.LastFailure(d.Pod, decision.Resize)
	for i := range over { // less CPU needs no quota
		if cpu := cluster.Of(cluster.CPU); last.Kind == decision.DeniedByQuota {
			over[i].Requests, over[i].Limits = over[i].Requests.Only(cpu), over[i].Limits.Only(cpu)
		}
	}
	admissible.Adjust(s.World.LimitsOf(d.Pod), d.Pod, over)
	d.With = over
	if len(over) == 0 {
		if !s.rescueBoosted(d, fits) {
			d.Reason = decision.Reason{Code: decision.Boosted, Until: until}
		}
		return
	}
	d.Priority = need.Compare(d.Pod, over).Priority()
	d.Unboost = cluster.Each(over, func(f *policy.Fitted) string { return f.Container })
	had, _ := d.Pod.Container(over[0].Container).Running()
	d.Wanted = decision.Reason{
		Code: decision.BoostOver, Container: need.NameUnlessSole(d.Pod)(over[0].Container),
		Resource: cluster.CPU, From: had.CPU, To: over[0].Requests.CPU,
	}
}

// judgeLargerNode makes a pod change at once that was scaled down to its node, if a larger node fits its recommendation now. Within its
// bounds, it would have to reach the minimum age otherwise. The replacement can only be scheduled on the larger node, so this happens at
// most once for each size of node.
func (s *Selector) judgeLargerNode(d *decision.Decision, v *need.Verdict) {
	a := d.Autoscaler
	p := d.Pod
	isTooYoung := d.Wanted.Code == decision.Fits && d.Reason.Code == decision.PodTooYoung
	if !isTooYoung || !a.Mode.Evicts() || s.Now.Before(a.Created.Add(s.Need.Lifetime)) || v.Priority.Diff < a.Rules.MinChange.Or(s.Need.Threshold) {
		return
	}
	if p.Controller.Kind != "DaemonSet" && s.Fleet.HoldsBack(p, change.Total(p, nil), change.Total(p, d.With)) {
		d.Wanted = v.Largest
		d.Wanted.Code = decision.LargerNode
		d.Wanted.Text = p.Node
	}
}
