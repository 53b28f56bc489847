// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// learnStarts selects whether the starts of the containers of a workload are kept, by the setting of the autoscaler that governs it. They stay
// as they are while the profile is not usable. After a restart, the status says whether there are stored starts, which would be lost otherwise.
func (r *recommender) learnStarts(w cluster.Workload, a *cluster.Autoscaler) {
	choice := r.catalog.Of(a)
	hasLearnt := func(x cluster.Advice) bool { return x.Learnt.Starts > 0 }
	switch {
	case choice.Usable:
		r.usageStore.LearnStarts(w, a.Learning.Under(choice.Learning).On)
	case slices.ContainsFunc(a.Advice, hasLearnt):
		r.usageStore.LearnStarts(w, true)
	}
}

// withLearntBoosts adds to the recommendation what the starts of the containers needed. Containers with a configured boost get none. The
// feature gate does not matter here: the admission controller, which applies the boost, requires it.
func (a *advice) withLearntBoosts(containers []cluster.Advice) []cluster.Advice {
	learning := a.to.Learning.Under(a.choice.Learning)
	containers = slices.Clone(containers) // they may be those of the autoscaler
	for i := range containers {
		c := &containers[i]
		c.Learnt = cluster.LearntBoost{}
		if !learning.On || a.to.HasBoost(c.Container) {
			continue
		}
		if h := a.by.usageStore.Series(a.to.Target, c.Container); h != nil {
			c.Learnt = h.Starts().Learn(c.Target.CPU, learning, a.now)
		}
	}
	return containers
}
