// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"slices"
	"strings"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// sayAdmission sets the condition RecommendationNotAdmitted if the API server would reject pods with the recommended size. It
// checks the first live pod. Without a live pod the condition stays unchanged.
func (a *advice) sayAdmission() {
	i := slices.IndexFunc(a.pods, (*cluster.Pod).Live)
	switch {
	case !a.to.Mode.Applies():
		a.report(v1alpha1.ConditionRecommendationNotAdmitted, "", "")
		return
	case i < 0:
		return
	}
	limits := policy.Limits{Range: a.by.world.Limits(a.to.Namespace)}
	fits := policy.Fit(a.applied(), limits, a.pods[i])
	var adjusted []string
	for _, f := range fits {
		for _, n := range f.Notes {
			if n.Kind == admissible.HeldToAdmitted {
				adjusted = append(adjusted, n.Resource.String()+" of container "+f.Container)
			}
		}
	}
	refusal := admissible.Refusal{}
	if len(fits) > 0 {
		refusal = admissible.Refused(limits, a.pods[i], fits)
	}
	switch {
	case refusal.Refused():
		a.report(v1alpha1.ConditionRecommendationNotAdmitted, v1alpha1.ReasonNoSizeAdmitted, fmt.Sprintf(
			"Pods keep their own requests and limits, because the API server would reject them with the recommended size: %s. "+
				"Correct the pod template, the LimitRange of the namespace, or minAllowed and maxAllowed.", refusal))
	case len(adjusted) > 0:
		a.report(v1alpha1.ConditionRecommendationNotAdmitted, v1alpha1.ReasonHeldToAdmitted, fmt.Sprintf(
			"The API server would reject pods with the recommended size, so pods get the nearest size that it admits for %s. "+
				"Check minAllowed and maxAllowed against the LimitRange of the namespace and the limits of the pod.", strings.Join(adjusted, ", ")))
	default:
		a.report(v1alpha1.ConditionRecommendationNotAdmitted, "", "")
	}
}

func (a *advice) applied() *cluster.Autoscaler {
	out := *a.to
	out.Advice = a.containers
	return &out
}
