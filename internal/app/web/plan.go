// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/web"
)

// addPlan adds the CapacityPlan, or why it is not known. Pools have its names and its capacity.
func addPlan(state *web.State, in *overview.World, plan *v1alpha1.CapacityPlan, known bool, err error) {
	if plan != nil {
		settings, allocatable := capacityplan.Settings(&plan.Spec)
		state.Plan, in.Rules, in.WholeNodes = &plan.Status, settings.Rules, !allocatable
	}
	switch {
	case known || err == nil: // it is known, or not read yet
	case errors.Is(err, kube.ErrForbidden):
		state.PlanProblem = "podfit may not read the CapacityPlan. It needs the right to get capacityplans.podfit.dev, which the role view has."
	default:
		state.PlanProblem = "The CapacityPlan is not known: " + err.Error()
	}
}
