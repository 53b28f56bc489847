// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayCriticality sets the condition CriticalityInvalid if a pod has an invalid label. While the profile cannot be used, or no pod was seen, the
// condition stays unchanged.
func (r *recommender) sayCriticality(adv *advice, choice *sizing.Choice) {
	if !choice.Usable {
		return
	}
	declared := r.workloads.State(adv.to.Target).Declared
	criticality, ok := r.workloads.Profile(choice, adv.to.Target).Criticality()
	switch {
	case !ok:
		adv.say(v1alpha1.ConditionCriticalityInvalid, watcher.Removed, "", "")
	case !declared.Known():
	case declared.HasInvalid:
		adv.say(v1alpha1.ConditionCriticalityInvalid, watcher.True, v1alpha1.ReasonLabelInvalid, fmt.Sprintf(
			"The label %s of a pod of %s %s must be a number from %d to %d, such as 1.5, got %q. The label has no effect: the criticality is %g, from %s. "+
				"Correct the label in the pod template.",
			recommend.CriticalityLabel, adv.to.Target.Kind, adv.to.Target.Name, recommend.MinCriticality, recommend.MaxCriticality, declared.Invalid,
			criticality.Factor, originOf(criticality)))
	default:
		adv.say(v1alpha1.ConditionCriticalityInvalid, watcher.Removed, "", "")
	}
}

// originOf describes where a criticality comes from.
func originOf(c recommend.Criticality) string {
	switch c.Origin {
	case recommend.FromLabel:
		return "the label of other pods"
	case recommend.FromPriorityClass:
		return "PriorityClass " + c.Class
	case recommend.FromProfile:
	}
	return "the profile"
}

// sayReplicas sets the condition NeedsMoreReplicas if the share of a node that the profile allows a pod is less than the pods need. While the
// share or the number of replicas is not known, the condition stays unchanged.
func (r *recommender) sayReplicas(adv *advice, choice *sizing.Choice, live int) {
	if !choice.Usable {
		return
	}
	target := adv.to.Target
	node := r.workloads.Profile(choice, target).Node
	unknown := live == 0 || r.workloads.LimitsCPU(choice, target)
	if choice.MostOfNode > 0 && node.Most() == 0 && unknown {
		return
	}
	wanted := policy.CPUWish(r.rounding(adv.to), adv.containers, r.config.MaxAllowed(), node)
	if node.Most() == 0 || wanted <= node.Most() {
		adv.say(v1alpha1.ConditionNeedsMoreReplicas, watcher.Removed, "", "")
		return
	}
	message := fmt.Sprintf("By their usage, the pods of %s %s need a CPU request of %s each, but profile %s allows at most %s for a pod, which is %s. ",
		target.Kind, target.Name, cluster.Format(cluster.CPU, wanted), choice.Name, cluster.Format(cluster.CPU, node.Most()), node)
	scale := r.world.Scale(target)
	if why := fixedReplicas(target, scale); why != "" {
		adv.say(v1alpha1.ConditionNeedsMoreReplicas, watcher.False, v1alpha1.ReasonReplicasFixed, message+why+
			" Use a profile with a larger mostOfNode, add larger nodes, or reduce what a pod uses.")
		return
	}
	replicas := int64(live)
	if scale.Known {
		replicas = int64(scale.Replicas)
	}
	if replicas == 0 {
		return
	}
	adv.say(v1alpha1.ConditionNeedsMoreReplicas, watcher.True, v1alpha1.ReasonAboveNodeShare, message+fmt.Sprintf(
		"With %d replicas instead of %d, a pod would need no more than that, if the load is divided evenly. "+
			"Raise the replicas, or minReplicas of the HorizontalPodAutoscaler if one sets them.", node.Replicas(replicas, wanted), replicas))
}

// fixedReplicas returns why more replicas of a workload are not possible or do not divide its load, or "".
func fixedReplicas(w cluster.Workload, scale cluster.Scale) string {
	switch {
	case w.Kind == "DaemonSet" && w.Group == "apps":
		return "A DaemonSet runs one pod per node, so it cannot have more replicas."
	case w.Group == "batch" || scale.Unscalable:
		return "A " + w.Kind + " has no number of replicas that could be raised."
	}
	return ""
}
