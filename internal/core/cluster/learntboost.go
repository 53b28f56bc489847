// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"time"
)

// The bounds of learnt boosts, whatever is configured or stored.
const (
	MaxBoostPercent  = 1000             // the largest factor, 10
	MaxBoostDuration = 15 * time.Minute // after Ready
	maxBoostStarts   = 1000
)

// The defaults of BoostLearning.
const (
	DefaultBoostPercent  = 400
	DefaultBoostDuration = 10 * time.Minute
)

// A LearntBoost is how much more CPU a container needs while it starts than its recommendation, learnt from its starts. The recommender
// writes it to the status of the autoscaler. As it is read from there, it is not more trusted than other fields that a user can change.
type LearntBoost struct {
	Percent  int32         // the factor in percent: 250 is 2.5 times the recommended CPU; 0 if starts need no more, or if that is not known
	Starts   int32         // how many starts it is learnt from
	Duration time.Duration // from Ready to the end of the boost
}

// Valid reports whether all values are possible. Others have no effect.
func (l LearntBoost) Valid() bool {
	return (l.Percent == 0 || l.Percent > 100) && l.Percent <= MaxBoostPercent && l.Starts >= 0 && l.Starts <= maxBoostStarts &&
		l.Duration >= 0 && l.Duration <= MaxBoostDuration
}

// BoostLearning is whether and within which bounds startup boosts are learnt (annotation podfit.dev/learn-startup-boost, or a
// SizingProfile). The zero value is not at all, as in upstream.
type BoostLearning struct {
	On          bool
	MaxPercent  int32         // the largest factor, in percent
	MaxDuration time.Duration // the longest boost after Ready
	Set         bool          // the autoscaler has a valid annotation, so whether its profile learns does not matter
	Problem     string        // the error in the annotation or the profile, "" if there is none
}

// Under returns the setting of an autoscaler whose profile has one. The annotation overrides the profile, but the bounds are those of the
// profile.
func (b BoostLearning) Under(profile BoostLearning) BoostLearning {
	out := b
	if !b.Set {
		out.On = profile.On
	}
	if profile.MaxPercent > 0 {
		out.MaxPercent = profile.MaxPercent
		out.MaxDuration = profile.MaxDuration
	}
	out.Problem = cmp.Or(out.Problem, profile.Problem)
	return out
}

// LearntBoostOf returns the learnt boost of a container as it is applied: within the bounds of the settings. It is nil if none is learnt or
// enabled, if the update mode is Off, or if the user has configured a boost for the container (spec.startupBoost or that of its policy),
// which wins. It is also nil if an HPA scales by the CPU request, because the HPA would see a lower utilization, and for containers with whole
// cores, because a pod with exclusive cores cannot be resized at the end of the boost.
func (a *Autoscaler) LearntBoostOf(container string) *Boost {
	if !a.Learning.On || a.Mode == Off || a.HasBoost(container) {
		return nil
	}
	if p := a.Policy(container); p != nil && p.Off {
		return nil
	}
	if _, metrics := a.ScaledBy(container, CPU); metrics > 0 || slices.Contains(a.IntegerCPU, container) {
		return nil
	}
	advice := a.AdviceFor(container)
	if advice == nil || !advice.Learnt.Valid() {
		return nil
	}
	percent := min(advice.Learnt.Percent, a.Learning.MaxPercent)
	if percent <= 100 {
		return nil
	}
	return &Boost{Percent: percent, Duration: min(advice.Learnt.Duration, a.Learning.MaxDuration)}
}

// HasBoost reports whether the user has configured a startup boost for a container.
func (a *Autoscaler) HasBoost(container string) bool {
	p := a.Policy(container)
	return a.Boost != nil || p != nil && p.Boost != nil
}

// BoostsNewPods reports whether the admission controller gives new pods more CPU while they start: a startup boost is configured, or one
// can be learnt.
func (a *Autoscaler) BoostsNewPods() bool {
	return a.HasStartupBoost() || a.Learning.On && a.Mode != Off
}
