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

// sayAdmission says where pods cannot get what is recommended because the API server would refuse them, going by one live pod.
// While there are none, what was said stays.
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
	around := policy.Limits{Range: r.world.Limits(a.Namespace)}
	fits := policy.Fit(&a, around, pods[i])
	var held []string
	for _, f := range fits {
		for _, n := range f.Notes {
			if n.Kind == policy.HeldToAdmitted {
				held = append(held, n.Resource.String()+" of container "+f.Container)
			}
		}
	}
	refused := policy.Refusal{}
	if len(fits) > 0 {
		refused = policy.Refused(around, pods[i], fits)
	}
	switch {
	case refused.Refused():
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.True, v1alpha1.ReasonNoSizeAdmitted, fmt.Sprintf(
			"Pods keep their own resources: the API server would refuse them with the recommended size, because %s. "+
				"Correct the pod template, the LimitRange of the namespace, or minAllowed and maxAllowed", refused))
	case len(held) > 0:
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.True, v1alpha1.ReasonHeldToAdmitted, fmt.Sprintf(
			"Pods get the nearest size that the API server admits instead of the recommended one: %s. "+
				"Compare minAllowed and maxAllowed with the LimitRange of the namespace and the limits of the pod", strings.Join(held, ", ")))
	default:
		adv.say(v1alpha1.ConditionRecommendationNotAdmitted, watcher.Removed, "", "")
	}
}
