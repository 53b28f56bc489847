// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"fmt"
	"strconv"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/startup"
)

// StartupBoost is what is known about the learnt startup boost of a container.
type StartupBoost struct {
	Learning   bool                // boosts are learnt for the VPA
	Learnt     cluster.LearntBoost // in the status of the VPA
	Applied    *cluster.Boost      // what new pods get of it; nil for nothing
	Configured bool                // the VPA configures a boost, which has precedence
	Off        bool                // the update mode of the VPA is Off
	GateOff    bool                // the feature gate CPUStartupBoost is disabled
}

// startupBoostOf returns what is known about the learnt boost of a container whose VPA is sized by a profile.
func startupBoostOf(a *cluster.Autoscaler, profile cluster.BoostLearning, container string) StartupBoost {
	with := *a
	with.Learning = a.Learning.Under(profile)
	out := StartupBoost{Learning: with.Learning.On, Configured: a.HasBoost(container), Off: !a.Mode.Applies(), Applied: with.LearntBoostOf(container)}
	if published := a.AdviceFor(container); published != nil && published.Learnt.Valid() {
		out.Learnt = published.Learnt
	}
	return out
}

// boostLine is the line about the learnt startup boost: its amount, or why there is none.
func (w *Why) boostLine() Line {
	b := &w.StartupBoost
	if !b.Learning || w.Resource != cluster.CPU {
		return Line{}
	}
	learnt := "learnt from " + plural(float64(b.Learnt.Starts), "start")
	switch {
	case b.Configured:
		return Line{What: "new pods get the startupBoost of the VPA", Note: "it has precedence over a learnt one"}
	case b.Learnt.Starts < startup.Needed:
		return Line{What: "no startup boost yet", Note: fmt.Sprintf("%s of %d needed to learn one", plural(float64(b.Learnt.Starts), "start"), startup.Needed)}
	case b.Learnt.Percent == 0:
		return Line{What: "no startup boost: starts need no more CPU", Note: learnt}
	case b.Off:
		return Line{What: "no startup boost: the update mode is Off", Note: learnt}
	case b.GateOff:
		return Line{What: "no startup boost: the feature gate CPUStartupBoost is disabled", Note: learnt}
	case !w.Size.HasRequest || w.Horizontal.IsLeft():
		return Line{What: "no startup boost: podfit does not set the CPU request", Note: learnt}
	case w.Horizontal != policy.NotScaled:
		return Line{What: "no startup boost: an HPA scales by the CPU request", Note: learnt}
	case b.Applied == nil:
		return Line{}
	}
	factor := strconv.FormatFloat(float64(b.Applied.Percent)/100, 'f', -1, 64)
	what := fmt.Sprintf("new pods start with %s times the request, until %.0f s after Ready", factor, b.Applied.Duration.Seconds())
	if b.Applied.Duration == 0 {
		what = fmt.Sprintf("new pods start with %s times the request, until they are Ready", factor)
	}
	return Line{What: what, Note: learnt}
}
