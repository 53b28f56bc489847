// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
)

// Budget limits the disruption by Plan and sets the conditions for changing a pod. Fields that are set by a flag of upstream's
// updater name the flag.
type Budget struct {
	MinReplicas int           // --min-replicas: a group with fewer live pods is left alone
	Tolerance   float64       // --eviction-tolerance: the fraction of a group's replicas that may be unavailable
	Threshold   float64       // --pod-update-threshold: minimum relative difference for a pod within its bounds
	Lifetime    time.Duration // --in-recommendation-bounds-eviction-lifetime-threshold: minimum age of a pod within its bounds
	QuickOOM    time.Duration // --evict-after-oom-threshold: maximum time from the start of a container to its OOM kill for an immediate update

	// SkipInPlace (--in-place-skip-disruption-budget): a resize that restarts no container needs no budget.
	SkipInPlace bool

	// MakeRoom (--make-room): what is done to make room for resizes on full nodes, where the autoscaler does not override it.
	MakeRoom room.Allowed

	// Mover (--mover): how pods are replaced, where the autoscaler does not override it.
	Mover Mover

	InPlace      bool // feature gate InPlace: update mode InPlace is enabled
	PerVPAConfig bool // feature gate PerVPAConfig: EvictAfterOOM of the autoscaler overrides QuickOOM
	StartupBoost bool // feature gate CPUStartupBoost

	// Shares of the requests of a namespace and of the cluster that may be changed in an hour (--max-change-per-hour-namespace,
	// --max-change-per-hour-cluster). 1 or more means no limit.
	NamespaceShare, ClusterShare float64

	DeferredFor   time.Duration // a resize that waits for room on the node longer than this has failed
	InProgressFor time.Duration // a resize that takes longer than this has failed
	StuckFor      time.Duration // a pod that is not Ready for longer than this does not recover by itself

	// PendingFor is how long a pod may be unscheduled before a smaller replacement is considered.
	PendingFor time.Duration

	// CapacityFor is how long a placeholder pod may wait for a node before the request for capacity has failed.
	CapacityFor time.Duration

	// MustFit (--replacement-must-fit): a pod whose replacement fits on no node is left alone.
	MustFit bool

	// Rescue (--oom-rescue) selects what is done for OOM-killed pods that get more memory, beyond upstream's rules.
	Rescue RescueMode

	// RescueFor is how long after an OOM kill a pod is rescued.
	RescueFor time.Duration

	// Window is how long the change of a pod takes from the disruption budget, if that does not follow from the state of the pods. It is
	// a little less than the interval of passes, so that passes in between do not change more pods. 0: only for the same pass.
	Window time.Duration

	// ReplacementFor is how long the replacement of an evicted pod may take. After that, no pod of its controller is
	// evicted until the controller has all its pods.
	ReplacementFor time.Duration

	ledger.Delays
}

// DefaultBudget returns upstream's defaults.
func DefaultBudget() Budget {
	return Budget{
		MinReplicas:    2,
		Tolerance:      0.5,
		Threshold:      0.1,
		Lifetime:       12 * time.Hour,
		QuickOOM:       10 * time.Minute,
		NamespaceShare: 1,
		ClusterShare:   1,
		DeferredFor:    5 * time.Minute,
		InProgressFor:  time.Hour,
		StuckFor:       10 * time.Minute,
		PendingFor:     2 * time.Minute,
		CapacityFor:    10 * time.Minute,
		MustFit:        true,
		RescueFor:      10 * time.Minute,
		MakeRoom:       room.Split,
		Mover:          SurgeForRoom,
		ReplacementFor: 5 * time.Minute,
		Window:         ledger.DefaultWindow,
		Delays: ledger.Delays{
			RefusalBase:     time.Minute,
			RefusalMax:      90 * time.Minute,
			EvictionBackoff: 30 * time.Minute,
			BackoffBase:     5 * time.Minute,
			BackoffMax:      6 * time.Hour,
		},
	}
}
