// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayCriticality sets the condition CriticalityInvalid if a pod has an invalid label. While the profile cannot be used, or no pod was seen, the
// condition stays unchanged.
func (a *advice) sayCriticality() {
	if !a.choice.Usable {
		return
	}
	target := a.to.Target
	declared := a.by.workloads.State(target).Declared
	used, ok := a.by.workloads.Profile(a.choice, target).Criticality()
	switch {
	case ok && !declared.Known():
	case ok && declared.HasInvalid:
		a.report(v1alpha1.ConditionCriticalityInvalid, v1alpha1.ReasonLabelInvalid, fmt.Sprintf(
			"The label %s of a pod of %s %s must be a number from %d to %d, such as 1.5, got %q. The label has no effect: the criticality is %g, from %s. "+
				"Correct the label in the pod template.",
			criticality.Label, target.Kind, target.Name, criticality.Min, criticality.Max, declared.Invalid,
			used.Factor, originOf(used)))
	default:
		a.report(v1alpha1.ConditionCriticalityInvalid, "", "")
	}
}

func originOf(c criticality.Factor) string {
	switch c.Origin {
	case derivation.FromLabel:
		return "the label of other pods"
	case derivation.FromPriorityClass:
		return "PriorityClass " + c.Class
	case derivation.FromProfile:
	}
	return "the profile"
}

// sayReplicas sets the condition NeedsMoreReplicas if the share of a node that the profile allows a pod is less than the pods need. While the
// share or the number of replicas is not known, the condition stays unchanged.
func (a *advice) sayReplicas() {
	if !a.choice.Usable {
		return
	}
	r := a.by
	target := a.to.Target
	node := r.workloads.Profile(a.choice, target).Node
	unknown := a.seen.live == 0 || r.workloads.LimitsCPU(a.choice, target)
	if a.choice.MostOfNode > 0 && node.Most() == 0 && unknown {
		return
	}
	wanted := policy.CPUWish(r.rounding(a.to), a.containers, r.config.MaxAllowed(), node)
	if node.Most() == 0 || wanted <= node.Most() {
		a.report(v1alpha1.ConditionNeedsMoreReplicas, "", "")
		return
	}
	message := fmt.Sprintf("By their usage, the pods of %s %s need a CPU request of %s each, but profile %s allows at most %s for a pod, which is %s. ",
		target.Kind, target.Name, cluster.Format(cluster.CPU, wanted), a.choice.Name, cluster.Format(cluster.CPU, node.Most()), node)
	scale := r.world.Scale(target)
	if why := fixedReplicas(target, scale); why != "" {
		a.say(v1alpha1.ConditionNeedsMoreReplicas, watcher.False, v1alpha1.ReasonReplicasFixed, message+why+
			" Use a profile with a larger mostOfNode, add larger nodes, or reduce what a pod uses.")
		return
	}
	replicas := int64(a.seen.live)
	if scale.Known {
		replicas = int64(scale.Replicas)
	}
	if replicas == 0 {
		return
	}
	a.report(v1alpha1.ConditionNeedsMoreReplicas, v1alpha1.ReasonAboveNodeShare, message+fmt.Sprintf(
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
