// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Reason is why a profile cannot be used as it is. The status of an autoscaler contains it as the reason of a condition.
type Reason string

// The reasons, with the values of api/podfit/v1alpha1.
const (
	Invalid      Reason = "Invalid"                // the SizingProfile is invalid
	Deleted      Reason = "Deleted"                // the SizingProfile was deleted
	OtherProfile Reason = "OtherProfileRemembered" // the workload has model state of a profile with another form
	ModeEvicts   Reason = "UpdateModeEvicts"       // the profile changes requests often, and the update mode evicts pods
)

// A Problem is a Reason with a message for the user. The zero value is no problem.
type Problem struct {
	Reason  Reason
	Message string
}

// Problem returns why the profile that an autoscaler names cannot be used as it is: it is deleted or invalid. The
// autoscaler contains the last recommendation.
func (c *Catalog) Problem(autoscaler *cluster.Autoscaler) Problem {
	name := autoscaler.Recommender
	if c.onlyDefault || c.builtin[name] != nil {
		return Problem{}
	}
	profile := c.profiles[name]
	switch {
	case profile == nil && c.listed && c.reportedUnusable(autoscaler), profile != nil && profile.deleted:
		return Problem{Deleted, fmt.Sprintf("SizingProfile %s was deleted; %s. Create it again, or set another profile in spec.recommenders[0].name",
			name, c.consequence(autoscaler))}
	case profile != nil && profile.problem != "":
		return Problem{Invalid, fmt.Sprintf("SizingProfile %[1]s is invalid: %[2]s; %[3]s. Correct it: kubectl edit sizingprofile %[1]s",
			name, profile.problem, c.consequence(autoscaler))}
	}
	return Problem{}
}

// consequence describes how an autoscaler is sized whose profile is deleted or invalid.
func (c *Catalog) consequence(a *cluster.Autoscaler) string {
	switch {
	case c.Of(a).Usable:
		return "its last valid parameters stay in use"
	case len(a.Advice) == 0:
		return "no recommendation is made"
	}
	return "the last recommendation is kept"
}

// ConflictProblem returns the problem of an autoscaler whose profile cannot use the model state of the workload.
func ConflictProblem(a *cluster.Autoscaler, choice *Choice, kept Assignment) Problem {
	return Problem{OtherProfile, fmt.Sprintf(
		"%s %s already has model state for profile %s (VerticalPodAutoscaler %s). Profile %s uses another algorithm, so no recommendation is made. "+
			"Set a profile with the same algorithm, or compare both on recorded usage: podfit backtest --recommenders %[3]s,%[5]s",
		a.Target.Kind, a.Target.Name, kept.Choice.Profile.Name, kept.By.Name, choice.Profile.Name)}
}

// ModeProblem returns the problem of an autoscaler whose profile is meant for resizes in place, and whose update mode evicts pods.
func ModeProblem(a *cluster.Autoscaler, choice *Choice) Problem {
	if !choice.Mode.Resizes() || !a.Mode.Evicts() || a.Mode.Resizes() {
		return Problem{}
	}
	return Problem{ModeEvicts, fmt.Sprintf(
		"Profile %s changes requests often and is meant for resizes in place; with updateMode %s each change evicts a pod. "+
			"Set updateMode InPlaceOrRecreate (Kubernetes 1.33 and later) or Initial, or set the profile default", choice.Profile.Name, a.Mode)}
}
