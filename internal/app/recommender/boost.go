// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
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

// withMemoryLimits adds the memory limits by the highest usage to containers, if the annotation of the autoscaler or its profile requires them. While
// the recommendation is held, and in the first 14 days, none is lower than that of a live pod or, without one, the last one.
func (a *advice) withMemoryLimits(containers []cluster.Advice, held bool) []cluster.Advice {
	node := int64(0)
	for _, p := range a.pods {
		if a.to.MemoryLimits.Peaks {
			node = max(node, a.in.fleet.Of(p).Memory())
		}
	}
	for i := range containers {
		c := &containers[i]
		published := cmp.Or(a.to.AdviceFor(c.Container), &cluster.Advice{})
		before := published.MemoryLimit
		c.MemoryLimit, c.MemoryPeak = 0, 0
		h := a.by.usageStore.Series(a.to.Target, c.Container)
		switch {
		case h != nil && a.to.MemoryLimits.Peaks:
			c.MemoryPeak = recommend.MemoryPeak(h, a.now)
		case held: // the target may still be that of a profile for limits apart from requests
			c.MemoryPeak = published.MemoryPeak
			continue
		default:
			continue
		}
		cp := cmp.Or(a.to.Policy(c.Container), &cluster.ContainerPolicy{})
		most := cmp.Or(max(cp.MaxAllowed.Memory, 0), a.by.config.MaxAllowed().Memory)
		limit := recommend.MemoryLimit(h, before, cp.MinAllowed.Memory, most, node, a.now)
		if limit > 0 && (held || a.now.Sub(h.Seen(cluster.Memory).First) < recommend.LimitHistory) {
			if a.seen.live > 0 { // then what somebody else has written to the status does not stay
				_, before = policy.MemoryLimitsOf(a.pods, c.Container)
			}
			limit = max(limit, before)
		}
		c.MemoryLimit = limit
	}
	return containers
}
