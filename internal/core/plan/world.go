// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// World is the input of Plan. Plan does not change it.
type World struct {
	Governed []cluster.Governed

	// Limits bound the pods of a namespace.
	Limits map[string]policy.Limits

	// Scales are the numbers of replicas of the direct controllers of pods (Pod.Controller). The number of a controller that is
	// not in it is unknown.
	Scales map[cluster.Workload]cluster.Scale

	// Nodes are the nodes for replacements. If there are none, the nodes are unknown, and Plan does not check whether a replacement
	// would fit.
	Nodes []cluster.Node

	// Fleet contains the sizes of nodes to which Plan scales down pods that fit on no node. Nil means that it scales none.
	Fleet *fleet.Fleet

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

	// SchedulerPreempts is true if the scheduler preempts pods for deferred resizes. Then no pod is moved to make room for them.
	SchedulerPreempts bool

	// Throttling is the CPU throttling of the canaries, see ledger.View.
	Throttling map[cluster.Workload]rollout.Throttling

	// NotStored is true if the ledger cannot be stored, so that the admission controller does not know which sizes were reverted.
	NotStored bool

	// Unannounced are the workloads on which actions cannot be announced now.
	Unannounced Unannounced

	// Explained are the UIDs of the pods of which all gates are recorded (Pass.Gates). They have no effect on decisions.
	Explained map[string]bool

	// Ledger records earlier attempts. Nil means that there were none.
	Ledger *ledger.Ledger
}
