// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
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

	// Selectors are the node selectors that pods have, from cluster.Selected on (Pod.Place). The nodes for a pod whose selector is not
	// among them are unknown, except its own one.
	Selectors []cluster.NodeSelector

	// Tolerations are those that pods have, from cluster.FirstListed on (Pod.Tolerance). A pod whose tolerations are not
	// among them tolerates at least the taints of its own node.
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
	Surges *surge.State
	// Provider is how capacity is asked for before an eviction.
	Provider headroom.Provider

	// Requests are the ProvisioningRequest objects of podfit. Placeholder pods are in Pods.
	Requests []cluster.CapacityRequest

	// SchedulerPreempts is true if the scheduler preempts pods for deferred resizes. Then no pod is moved to make room for them.
	SchedulerPreempts bool

	// Throttling is the CPU throttling of the canaries, see ledger.View.
	Throttling map[cluster.Workload]rollout.Throttling

	// NotStored is true if the ledger cannot be stored, so that the admission controller does not know which sizes were reverted.
	NotStored bool

	// Unannounced are the workloads on which actions cannot be announced now.
	Unannounced ledger.Unannounced

	// Explained are the UIDs of the pods of which all gates are recorded (Pass.Gates). They have no effect on decisions.
	Explained map[string]bool

	// Ledger records earlier attempts. Nil means that there were none.
	Ledger *ledger.Ledger
}

// LimitsOf returns the bounds of the size of a pod.
func (w *World) LimitsOf(p *cluster.Pod) policy.Limits {
	l := w.Limits[p.Namespace]
	if w.Fleet != nil {
		l.Nodes = w.Fleet.Of(p)
	}
	return l
}

// Budget limits the disruption by Plan and sets the conditions for changing a pod. Fields that are set by a flag of upstream's
// updater name the flag.
type Budget struct {
	// SkipInPlace (--in-place-skip-disruption-budget): a resize that restarts no container needs no budget.
	SkipInPlace bool

	// MakeRoom (--make-room): what is done to make room for resizes on full nodes, where the autoscaler does not override it.
	MakeRoom room.Allowed

	// Mover (--mover): how pods are replaced, where the autoscaler does not override it.
	Mover surge.Mover

	InPlace      bool // feature gate InPlace: update mode InPlace is enabled
	StartupBoost bool // feature gate CPUStartupBoost

	DeferredFor   time.Duration // a resize that waits for room on the node longer than this has failed
	InProgressFor time.Duration // a resize that takes longer than this has failed

	// MustFit (--replacement-must-fit): a pod whose replacement fits on no node is left alone.
	MustFit bool

	// Rescue (--oom-rescue) selects what is done for OOM-killed pods that get more memory, beyond upstream's rules.
	Rescue rescue.Mode

	disruption.Limits // of pods that are out of service at once
	need.Rules        // for a change
	radius.Shares     // of requests that may be changed in an hour
	attempt.Delays
}

// DefaultBudget returns upstream's defaults.
func DefaultBudget() Budget {
	return Budget{
		DeferredFor:   5 * time.Minute,
		InProgressFor: time.Hour,
		MustFit:       true,
		MakeRoom:      room.Split,
		Mover:         surge.ForRoom,
		Limits:        disruption.Limits{MinReplicas: 2, Tolerance: 0.5, StuckFor: 10 * time.Minute, Window: ledger.DefaultWindow},
		Shares:        radius.Shares{NamespaceShare: 1, ClusterShare: 1},
		Rules:         need.Rules{Threshold: 0.1, Lifetime: 12 * time.Hour, QuickOOM: 10 * time.Minute},
		Delays: attempt.Delays{
			RefusalBase:     time.Minute,
			RefusalMax:      90 * time.Minute,
			EvictionBackoff: 30 * time.Minute,
			BackoffBase:     5 * time.Minute,
			BackoffMax:      6 * time.Hour,
		},
	}
}
