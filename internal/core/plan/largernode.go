// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// fullNode is the share of its node from which a pod counts as scaled down to it. The DaemonSets of the node may have changed since.
const fullNode = 0.9

// judgeLargerNode makes a pod change at once that was scaled down to its node, if a larger node fits its recommendation now. Within its
// bounds, it would have to reach the minimum age otherwise. The replacement can only be scheduled on the larger node, so this happens at
// most once for each size of node.
func (s *pass) judgeLargerNode(d *entry, v *verdict) {
	a, p := d.Autoscaler, d.Pod
	isTooYoung := d.Wanted.Code == decision.Fits && d.Reason.Code == decision.PodTooYoung
	if !isTooYoung || !a.Mode.Evicts() || s.now.Before(a.Created.Add(s.b.Lifetime)) || v.priority.Diff < s.b.Threshold || !s.isHeldToNode(d) {
		return
	}
	d.Wanted = v.largest
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
