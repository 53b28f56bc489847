// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

// NeedsAttention reports whether a reason to leave a pod does not end by itself, or indicates a problem.
func (c ReasonCode) NeedsAttention() bool { return needsAttention[c] }

var needsAttention = map[ReasonCode]bool{
	BackingOff: true, NotSizedAtAdmission: true, ChangesTooOften: true, NoNodeFits: true, QoSChange: true, NoController: true, TooFewReplicas: true,
	ResizeImpossible: true, ResizeStalled: true, MemoryInUse: true, NotSmallerThanRefused: true,
	SameSize: true, GateOff: true, Unscheduled: true,
	EvictionRefused: true, DisruptionBudget: true, ResizeRefused: true, ResizeOverQuota: true,
	Frozen: true, OverQuota: true, HPANotWritten: true, ServerNotReached: true,
	CapacityNotFound: true, NoCapacityProvider: true, NoWayBack: true, NotAnnounced: true, DryRunUnanswered: true,
	DataWouldBeLost: true, BudgetsUnknown: true, BudgetOfOthers: true, NotEnoughMemory: true, DeletionRefused: true,
}
