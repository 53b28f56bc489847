// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Budget is what Plan may disrupt, and what it takes to change a pod. Where a flag of upstream's updater sets a field,
// the field says which.
type Budget struct {
	MinReplicas int           // --min-replicas: a group with fewer live pods is left alone
	Tolerance   float64       // --eviction-tolerance: the part of a group's replicas that may be missing
	Threshold   float64       // --pod-update-threshold: an older pod changes for a relative difference of this much
	Lifetime    time.Duration // --in-recommendation-bounds-eviction-lifetime-threshold: what older means
	QuickOOM    time.Duration // --evict-after-oom-threshold: out of memory sooner than this after its start

	// SkipInPlace (--in-place-skip-disruption-budget): a resize that restarts no container needs no budget.
	SkipInPlace bool

	InPlace      bool // feature gate InPlace: the update mode of that name works
	PerVPAConfig bool // feature gate PerVPAConfig: an autoscaler's EvictAfterOOM counts
	StartupBoost bool // feature gate CPUStartupBoost

	DeferredFor   time.Duration // a resize that waits for room on the node longer than this has failed
	InProgressFor time.Duration // a resize that takes longer than this has failed
	StuckFor      time.Duration // a pod that is not Ready for longer than this counts as down for good

	// PendingFor is how long a pod may wait to be scheduled before its size is questioned.
	PendingFor time.Duration

	// MustFit (--replacement-must-fit): a pod whose replacement would fit no node is left alone.
	MustFit bool

	// ReplacementFor is how long the replacement of an evicted pod may take. After that, no pod of its controller is
	// evicted until the controller has all its pods.
	ReplacementFor time.Duration

	// After an action that the API server refused, the pod is left alone this long; twice as long after each further
	// refusal, up to the maximum.
	RefusalBase, RefusalMax time.Duration

	// After an eviction that did not help, the workload is left alone this long; twice as long after each further one,
	// up to the maximum.
	BackoffBase, BackoffMax time.Duration
}

// DefaultBudget returns upstream's defaults.
func DefaultBudget() Budget {
	return Budget{
		MinReplicas:    2,
		Tolerance:      0.5,
		Threshold:      0.1,
		Lifetime:       12 * time.Hour,
		QuickOOM:       10 * time.Minute,
		DeferredFor:    5 * time.Minute,
		InProgressFor:  time.Hour,
		StuckFor:       10 * time.Minute,
		PendingFor:     2 * time.Minute,
		MustFit:        true,
		ReplacementFor: 5 * time.Minute,
		RefusalBase:    time.Minute,
		RefusalMax:     90 * time.Minute,
		BackoffBase:    5 * time.Minute,
		BackoffMax:     6 * time.Hour,
	}
}
