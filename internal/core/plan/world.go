// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// World is the input of Plan. Plan does not change it.
type World struct {
	Governed []Governed

	// Limits bound the pods of a namespace.
	Limits map[string]policy.Limits

	// Scales are the numbers of replicas of the direct controllers of pods (Pod.Controller). The number of a controller that is
	// not in it is unknown.
	Scales map[cluster.Workload]cluster.Scale

	// Nodes are the nodes for replacements. If there are none, the nodes are unknown, and Plan does not check whether a replacement
	// would fit.
	Nodes []cluster.Node

	// Fleet contains the sizes of nodes to which Plan scales down pods that fit on no node. Nil means that it scales none.
	Fleet *policy.Fleet

	// Selectors are the node selectors that pods have, from cluster.Selected on (Pod.Place). A pod whose selector is not
	// among them could be placed on any node whose taints it tolerates.
	Selectors []cluster.NodeSelector

	// Tolerations are those that pods have, from cluster.FirstListed on (Pod.Tolerance). A pod whose tolerations are not
	// among them counts as one that tolerates all taints.
	Tolerations []cluster.Tolerations

	// Rules are the user's rules for the time of changes, by autoscaler. For an autoscaler that is not in it, its own rules apply.
	Rules map[cluster.Key]rollout.Rules

	// Requested are the requests of all live pods by namespace. They are needed if the budget limits the share of requests that is changed.
	Requested map[string]cluster.Resources
	// Budgets are the PodDisruptionBudgets of the namespaces with OOM-killed pods that are not ready. A namespace that is not in it has
	// unknown ones.
	Budgets map[string][]cluster.DisruptionBudget

	// Pods are all pods on the nodes, those too that no autoscaler governs. If it is empty, some pods are not known, and no room is
	// made for resizes.
	Pods []*cluster.Pod

	// Surges are the surges in progress. Nil means that no surge is possible.
	Surges *Surges
	// Provider is how capacity is asked for before an eviction.
	Provider Provider

	// Requests are the ProvisioningRequest objects of podfit. Placeholder pods are in Pods.
	Requests []cluster.CapacityRequest

	// Ledger records earlier attempts. Nil means that there were none.
	Ledger *Ledger
}

// Governed is an autoscaler and the pods it governs: all of them, those too that are not scheduled yet, are being deleted
// or have finished.
type Governed struct {
	Autoscaler *cluster.Autoscaler
	Pods       []*cluster.Pod
}

// Gather assigns pods to the autoscalers that govern them: the pods of a topmost controller to the autoscaler that
// cluster.Governing chooses for it. Where none changes pods, they are assigned to the oldest autoscaler, whose update mode is then the
// reason why they are left alone. startupBoost is the feature gate CPUStartupBoost. The result is sorted by autoscaler and
// contains every autoscaler, those that govern no pod too.
func Gather(as []*cluster.Autoscaler, pods []*cluster.Pod, startupBoost bool) []Governed {
	byTarget := make(map[cluster.Workload][]*cluster.Autoscaler, len(as))
	for _, a := range as {
		byTarget[a.Target] = append(byTarget[a.Target], a)
	}
	podsOf := make(map[*cluster.Autoscaler][]*cluster.Pod, len(as))
	governing := make(map[cluster.Workload]*cluster.Autoscaler, len(as))
	for _, p := range pods {
		if p.Top.IsZero() {
			continue
		}
		a, known := governing[p.Top]
		if !known {
			if a = cluster.Governing(byTarget[p.Top], startupBoost); a == nil {
				a = cluster.Oldest(byTarget[p.Top])
			}
			governing[p.Top] = a
		}
		if a != nil {
			podsOf[a] = append(podsOf[a], p)
		}
	}
	out := make([]Governed, 0, len(as))
	for _, a := range as {
		out = append(out, Governed{Autoscaler: a, Pods: podsOf[a]})
	}
	slices.SortFunc(out, func(a, b Governed) int { return a.Autoscaler.Key.Compare(b.Autoscaler.Key) })
	return out
}
