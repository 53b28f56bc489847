// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/rollout"
)

// A Profile is what a SizingProfile requires for changes of pods.
type Profile struct {
	Canary    cluster.Canary        // how changes are rolled out
	Guards    cluster.RuntimeGuards // what is done for containers whose language runtime is known
	CPULimits cluster.LimitRule     // what is done with the CPU limits of new pods
	Limits    cluster.LimitRule     // how memory limits follow
	Learning  cluster.BoostLearning // whether startup boosts are learnt
}

// ProfileOf returns what a SizingProfile requires, from its spec in JSON. It never fails: an invalid canary is the more careful way, as in an
// annotation, and other invalid fields have no effect. The recommender reports them, and refuses a SizingProfile with the name of a built-in profile.
func ProfileOf(name string, spec []byte) Profile {
	var fields v1alpha1.SizingProfileSpec
	if _, builtin := recommend.Builtin(name); builtin {
		return Profile{}
	}
	_ = json.Unmarshal(spec, &fields) // a field of another type is left out
	where := "a field of SizingProfile " + name + " is invalid: "
	limits := ptr.Deref(fields.Limits, v1alpha1.Limits{})
	out := Profile{Canary: profileCanary(&fields, where), Limits: recommend.LimitsOf(string(fields.Base)), Learning: profileLearning(fields.StartupBoost, where+"startupBoost.")}
	guards, problem := runtimeGuards(fields.RuntimeGuards[:min(len(fields.RuntimeGuards), maxGuards)], where+"runtimeGuards")
	out.Guards = guards
	out.Guards.Problem = problem
	if limits.CPU != "" {
		out.CPULimits = limitRule(cluster.CPU, string(limits.CPU), where+"limits.cpu")
	}
	if limits.Memory != "" {
		out.Limits = limitRule(cluster.Memory, string(limits.Memory), where+"limits.memory")
	}
	return out
}

// profileCanary returns how changes are rolled out.
func profileCanary(fields *v1alpha1.SizingProfileSpec, where string) cluster.Canary {
	out := cluster.Canary{Watch: rollout.DefaultWatch}
	out.On, out.Problem = isCanary(true, fields.Rollout, where+"rollout")
	if !out.On {
		return cluster.Canary{}
	}
	if fields.CanaryDuration != nil {
		d, problem := canaryDuration(string(*fields.CanaryDuration), where+"canaryDuration")
		out.Watch = cmp.Or(d, out.Watch)
		out.Problem = cmp.Or(problem, out.Problem)
	}
	return out
}

// profileLearning returns whether startup boosts are learnt, from the field of a profile, which may be nil.
func profileLearning(boost *v1alpha1.StartupBoost, where string) cluster.BoostLearning {
	if boost == nil {
		return cluster.BoostLearning{}
	}
	out := cluster.BoostLearning{On: boost.Learn, MaxPercent: cluster.DefaultBoostPercent, MaxDuration: cluster.DefaultBoostDuration}
	if f := boost.MaxFactor; f != nil {
		if !(*f >= minBoostFactor && *f <= maxBoostFactor) {
			return cluster.BoostLearning{Problem: fmt.Sprintf("%smaxFactor must be between %v and %v, got %v; no startup boost is learnt",
				where, minBoostFactor, maxBoostFactor, *f)}
		}
		out.MaxPercent = int32(math.Round(*f * 100))
	}
	if text := boost.MaxDuration; text != nil {
		d, err := time.ParseDuration(strings.TrimSpace(string(*text)))
		if err != nil || d < 0 || d > cluster.MaxBoostDuration {
			return cluster.BoostLearning{Problem: fmt.Sprintf("%smaxDuration must be between 0s and %v, got %q; no startup boost is learnt",
				where, cluster.MaxBoostDuration, quoted(string(*text)))}
		}
		out.MaxDuration = d
	}
	return out
}
