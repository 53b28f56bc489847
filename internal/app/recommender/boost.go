// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
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
func (r *recommender) withLearntBoosts(now time.Time, a *cluster.Autoscaler, choice *sizing.Choice, advice []cluster.Advice) []cluster.Advice {
	learning := a.Learning.Under(choice.Learning)
	advice = slices.Clone(advice) // it may be that of the autoscaler
	for i := range advice {
		c := &advice[i]
		c.Learnt = cluster.LearntBoost{}
		if !learning.On || a.HasBoost(c.Container) {
			continue
		}
		if h := r.usageStore.Series(a.Target, c.Container); h != nil {
			c.Learnt = h.Starts().Learn(c.Target.CPU, learning, now)
		}
	}
	return advice
}
