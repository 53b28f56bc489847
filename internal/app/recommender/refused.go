// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"slices"
	"strings"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayAdmission sets the condition RecommendationNotAdmitted if the API server would reject pods with the recommended size. It
// checks the first live pod. Without a live pod the condition stays unchanged.
func (r *recommender) sayAdmission(adv *advice, pods []*cluster.Pod) {
	a := *adv.to
	a.Advice = adv.containers
	i := slices.IndexFunc(pods, (*cluster.Pod).Live)
	switch {
	case a.Mode == cluster.Off:
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.Removed, "", "")
		return
	case i < 0:
		return
	}
	limits := policy.Limits{Range: r.world.Limits(a.Namespace)}
	fits := policy.Fit(&a, limits, pods[i])
	var adjusted []string
	for _, f := range fits {
		for _, n := range f.Notes {
			if n.Kind == policy.HeldToAdmitted {
				adjusted = append(adjusted, n.Resource.String()+" of container "+f.Container)
			}
		}
	}
	refusal := policy.Refusal{}
	if len(fits) > 0 {
		refusal = policy.Refused(limits, pods[i], fits)
	}
	switch {
	case refusal.Refused():
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.True, v1alpha1.ReasonNoSizeAdmitted, fmt.Sprintf(
			"Pods keep their own requests and limits, because the API server would reject them with the recommended size: %s. "+
				"Correct the pod template, the LimitRange of the namespace, or minAllowed and maxAllowed.", refusal))
	case len(adjusted) > 0:
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.True, v1alpha1.ReasonHeldToAdmitted, fmt.Sprintf(
			"The API server would reject pods with the recommended size, so pods get the nearest size that it admits for %s. "+
				"Check minAllowed and maxAllowed against the LimitRange of the namespace and the limits of the pod.", strings.Join(adjusted, ", ")))
	default:
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.Removed, "", "")
	}
}
