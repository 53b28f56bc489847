// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
)

// Governing returns the autoscaler that governs the pods of a workload, given all autoscalers that target the workload. It is the
// oldest of those that change pods. If two have the same age, it is the one whose namespace and name sort first. It returns
// nil if no autoscaler changes pods. The order of the input does not matter.
//
// The recommender, the updater and the admission controller all use this rule. If they disagreed, the updater would evict pods
// whose replacements the admission controller does not size. startupBoost is the feature gate CPUStartupBoost.
func Governing(named []*Autoscaler, startupBoost bool) *Autoscaler {
	var governing *Autoscaler
	for _, a := range named {
		if a.ChangesPods(startupBoost) && (governing == nil || a.CompareAge(governing) < 0) {
			governing = a
		}
	}
	return governing
}

// ChangesPods reports whether an autoscaler changes new or running pods: its update mode is not Off, or it has a startup
// boost and the feature gate CPUStartupBoost is on.
func (a *Autoscaler) ChangesPods(startupBoost bool) bool {
	return a.Mode != Off || startupBoost && a.HasStartupBoost()
}

// HasStartupBoost reports whether an autoscaler has a startup boost, for all containers or for one.
func (a *Autoscaler) HasStartupBoost() bool {
	return a.Boost != nil || slices.ContainsFunc(a.Policies, func(p ContainerPolicy) bool { return p.Boost != nil })
}

// CompareAge orders the older autoscaler first. Those of the same age are ordered by namespace and name.
func (a *Autoscaler) CompareAge(b *Autoscaler) int {
	return cmp.Or(a.Created.Compare(b.Created), a.Key.Compare(b.Key))
}

// Oldest returns the autoscaler that precedes all others, or nil if there is none. The order of the input does not matter.
func Oldest(as []*Autoscaler) *Autoscaler {
	if len(as) == 0 {
		return nil
	}
	return slices.MinFunc(as, (*Autoscaler).CompareAge)
}

// Responsible returns the autoscaler that governs a workload, or the oldest if none changes pods; nil if there is none.
func Responsible(named []*Autoscaler, startupBoost bool) *Autoscaler {
	return cmp.Or(Governing(named, startupBoost), Oldest(named))
}

// Governed is an autoscaler and the pods it governs: all of them, those too that are not scheduled yet, are being deleted
// or have finished.
type Governed struct {
	Autoscaler *Autoscaler
	Pods       []*Pod
}

// Gather assigns pods to the autoscalers that govern them: the pods of a topmost controller to the autoscaler that
// Governing chooses for it. Where none changes pods, they are assigned to the oldest autoscaler, whose update mode is then the
// reason why they are left alone. startupBoost is the feature gate CPUStartupBoost. The result is sorted by autoscaler and
// contains every autoscaler, those that govern no pod too.
func Gather(as []*Autoscaler, pods []*Pod, startupBoost bool) []Governed {
	byTop := podsByTop(pods)
	podsOf := make(map[*Autoscaler][]*Pod, len(as))
	for target, named := range byTarget(as) {
		podsOf[Responsible(named, startupBoost)] = byTop[target]
	}
	out := Each(as, func(a **Autoscaler) Governed { return Governed{Autoscaler: *a, Pods: podsOf[*a]} })
	slices.SortFunc(out, func(a, b Governed) int { return a.Autoscaler.Key.Compare(b.Autoscaler.Key) })
	return out
}
