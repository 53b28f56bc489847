// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"slices"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
)

// maxNodesExamined is the maximum number of pods of a DaemonSet whose nodes are examined in a pass.
const maxNodesExamined = 1000

// sayNodes sets the condition NeedsLargerNode if pods with the recommended size fit on no node that may take them. The pods of a
// DaemonSet are examined one by one, because each stays on its node. For other workloads, the first live pod stands for all. Without a
// live pod the condition stays unchanged.
func (a *advice) sayNodes() {
	var found tooLarge
	if a.to.Mode.Applies() && a.governing {
		live := slices.DeleteFunc(slices.Clone(a.pods), func(p *cluster.Pod) bool { return !p.Live() })
		if len(live) == 0 {
			return
		}
		found = a.tooLarge(live)
	}
	if found.pods == 0 {
		a.report(v1alpha1.ConditionNeedsLargerNode, "", "")
		return
	}
	reason := v1alpha1.ReasonNoNodeFits
	consequence := "No smaller size is possible, because of the lower bound, a LimitRange or the QoS class, so new pods stay Pending."
	switch {
	case !a.by.config.NodeFit.Scale:
		consequence = "New pods stay Pending, because --fit-nodes is false."
	case found.scaled:
		reason = v1alpha1.ReasonScaledDown
		consequence = fmt.Sprintf("The pods get %s instead.", found.given)
	}
	a.report(v1alpha1.ConditionNeedsLargerNode, reason, fmt.Sprintf(
		"%s no node that may take them. A node needs %s beside its DaemonSet pods. %s Add a larger node, or set maxAllowed.",
		fitOn(found.pods), found.need, consequence))
}

// fitOn returns the beginning of the sentence about a number of pods.
func fitOn(pods int) string {
	if pods == 1 {
		return "1 pod fits with its recommended size on"
	}
	return fmt.Sprintf("%d pods fit with their recommended size on", pods)
}

// tooLarge contains the pods of a workload that fit on no node with the recommended size.
type tooLarge struct {
	pods        int
	need, given cluster.Resources // requests of the first of them: recommended, and after scaling
	scaled      bool
}

func (a *advice) tooLarge(live []*cluster.Pod) tooLarge {
	all := live[:1]
	isDaemon := live[0].Controller.Kind == "DaemonSet"
	if isDaemon {
		all = live[:min(len(live), maxNodesExamined)]
	}
	applied := a.applied()
	limits := policy.Limits{Range: a.by.world.Limits(a.to.Namespace)}
	var out tooLarge
	for _, p := range all {
		sizes := a.in.fleet.Of(p)
		own := applied.For(p)
		wanted := policy.Fit(own, limits, p)
		need := requestsOf(limits, p, wanted)
		if len(wanted) == 0 || sizes.Hold(need) {
			continue
		}
		if out.pods++; out.pods > 1 {
			continue
		}
		withNodes := limits
		withNodes.Nodes = sizes
		out.need, out.given = need, requestsOf(limits, p, policy.Fit(own, withNodes, p))
		out.scaled = out.given != need
	}
	if out.pods > 0 && !isDaemon {
		out.pods = len(live)
	}
	return out
}

// requestsOf returns the requests that the scheduler counts for a pod with fits set on it.
func requestsOf(limits policy.Limits, p *cluster.Pod, fits []policy.Fitted) cluster.Resources {
	demand := admissible.DemandOf(limits, p, cluster.Standing{}, fits)
	return demand.Most().Requests
}

// sayPacking sets the condition PackingNotPossible if the profile sizes pods for full nodes, and a container is sized as by balanced. Nodes are only
// looked up for the elected autoscaler of the workload, in any update mode, so nothing is said of others.
func (a *advice) sayPacking() {
	elected := a.in.governing[a.to.Target]
	switch {
	case !a.choice.Usable:
		return
	case elected == nil || elected.Key != a.to.Key:
		a.report(v1alpha1.ConditionPackingNotPossible, "", "")
		return
	}
	profile := a.by.workloads.Profile(a.choice, a.to.Target)
	for _, history := range a.by.usageStore.All(a.to.Target) {
		own := a.to.Policy(history.Container())
		if !own.Controls().Has(cluster.Memory) || history.Stale() {
			continue
		}
		if problem := profile.PackingProblem(history); problem != recommend.NoPackingProblem {
			a.report(v1alpha1.ConditionPackingNotPossible, string(problem), fmt.Sprintf(
				"Profile %s sizes container %s as balanced does: %s.", a.choice.Name, history.Container(), recommend.PackingProblems[problem]))
			return
		}
	}
	a.report(v1alpha1.ConditionPackingNotPossible, "", "")
}
