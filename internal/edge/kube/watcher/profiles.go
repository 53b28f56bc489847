// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A profileSet has what SizingProfiles require for changes of pods.
type profileSet struct {
	*base
	profiles    store[projection.Profile]
	profileFeed *feed.Feed // nil if they are not watched
}

// addProfiles watches SizingProfiles: their names, which are used for warnings, and their rules. Startup does not wait for the
// first list. With Options.Rules, which the updater sets, no pod is changed before the first list: all pods of a workload would be changed
// although its profile requires a canary.
func (w *World) addProfiles() {
	project := func(o *kube.RawObject) projection.Profile { return projection.ProfileOf(o.Name, o.Spec) }
	w.profileFeed = addFeed(w.base, feed.Config{
		Name: v1alpha1.ResourceSizingProfiles, NonBlocking: !w.o.Rules, Optional: true,
		LostWithout: "the names of SizingProfiles in warnings about misspelled recommender names, and which of them have a canary, runtime guards, " +
			"rules for limits or learnt startup boosts",
		Remedy: "if you want SizingProfiles, podfit crds | kubectl apply --server-side --force-conflicts -f -",
	}, w.clients.RawObjectsIn(v1alpha1.ResourceSizingProfiles, ""), typed(project), &w.profiles)
}

// ProfileNames returns the sorted names of all SizingProfiles, and whether they are known. They are known to be none if the cluster
// has no such resource, or podfit may not read it. They are not known if they are not watched, or the watch is out of date.
func (s *profileSet) ProfileNames() (names []string, known bool) {
	if s.profileFeed == nil {
		return nil, false
	}
	state := s.profileFeed.State()
	if state.Forbidden {
		return nil, true
	}
	if state.IsStale(time.Now()) {
		return nil, false
	}
	s.profiles.each(func(key cluster.Key, _ projection.Profile) { names = append(names, key.Name) })
	slices.Sort(names)
	return names, true
}

// withProfile returns the autoscaler with the rules of the profile that it names. The mutex is held.
func (s *profileSet) withProfile(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || a.Recommender == "" {
		return a
	}
	profile, _ := s.profiles.get(cluster.Key{Name: a.Recommender})
	profile.Limits = cmp.Or(profile.Limits, recommend.LimitsOf(a.Recommender))
	if profile == (projection.Profile{}) {
		return a
	}
	out := *a
	out.Canary = a.Canary.Under(profile.Canary)
	out.Guards = a.Guards.Under(profile.Guards)
	out.CPULimits = a.CPULimits.Under(profile.CPULimits)
	out.MemoryLimits = a.MemoryLimits.Under(profile.Limits)
	out.Learning = a.Learning.Under(profile.Learning)
	return &out
}
