// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Governing returns the autoscaler that governs the pods of a workload, given all autoscalers that target the workload. It is the
// oldest of those that change pods. If two have the same age, it is the one whose namespace and name sort first. It returns
// nil if no autoscaler changes pods. The order of the input does not matter.
//
// The recommender, the updater and the admission controller all use this rule. If they disagreed, the updater would evict pods
// whose replacements the admission controller does not size. startupBoost is the feature gate CPUStartupBoost.
func Governing(named []*Autoscaler, startupBoost bool) *Autoscaler {
	var governing *Autoscaler
	for _, a := range named {
		if a.ChangesPods(startupBoost) && (governing == nil || a.Precedes(governing)) {
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
	if a.Boost != nil {
		return true
	}
	for i := range a.Policies {
		if a.Policies[i].Boost != nil {
			return true
		}
	}
	return false
}

// Precedes reports whether a is older than b. If both have the same age, it reports whether the namespace and name of a sort first.
func (a *Autoscaler) Precedes(b *Autoscaler) bool {
	return a.Created.Before(b.Created) || a.Created.Equal(b.Created) && a.Key.Compare(b.Key) < 0
}

// Oldest returns the autoscaler that precedes all others, or nil if there is none. The order of the input does not matter.
func Oldest(as []*Autoscaler) *Autoscaler {
	var oldest *Autoscaler
	for _, a := range as {
		if oldest == nil || a.Precedes(oldest) {
			oldest = a
		}
	}
	return oldest
}
