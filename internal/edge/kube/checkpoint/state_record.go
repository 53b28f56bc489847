// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// outcomeDone is the outcome of an action that was carried out.
const outcomeDone = "Done"

// The names below are stored, so they are never changed.
var (
	// outcomes are the names of the outcomes of other actions.
	outcomes = map[decision.RefusalKind]string{
		decision.Denied: "Denied", decision.DeniedByBudget: "DisruptionBudget", decision.DeniedByNode: "NodeCapacity", decision.DeniedByQuota: "Quota",
		decision.Unsupported: "Unsupported", decision.WebhookFailed: "WebhookFailed", decision.ServerBusy: "ServerBusy", decision.NotReached: "NotReached",
		decision.OutcomeIsUnknown: "NoAnswer", decision.NotReadyInTime: "NotReadyInTime",
	}

	// actions are the names of the actions.
	actions = map[decision.Act]string{decision.Evict: "Evict", decision.Resize: "Resize", decision.Delete: "Delete", decision.Surge: "Surge"}

	// phases are the names of the phases of a canary.
	phases = map[rollout.Phase]string{
		rollout.Idle: v1alpha1.CanaryIdle, rollout.Starting: v1alpha1.CanaryStarting, rollout.Watching: v1alpha1.CanaryWatching,
		rollout.Accepted: v1alpha1.CanaryAccepted, rollout.Held: v1alpha1.CanaryHeld,
	}

	// causes are the names of the causes of a revert.
	causes = map[rollout.Cause]string{
		rollout.NoCause: "", rollout.OOMKilled: "OOMKilled", rollout.Restarted: "Restarted", rollout.NotReady: "NotReady",
		rollout.Throttled: "Throttled",
	}

	// comparisons are the names of the results of a comparison of CPU throttling.
	comparisons = map[rollout.Comparison]string{
		rollout.NotYetCompared: "", rollout.Compared: "Compared", rollout.NoCPULimit: "NoCPULimit", rollout.NoPrometheus: "NoPrometheus",
		rollout.NoAnswer: "NoAnswer", rollout.NoData: "NoData",
	}
)

func (m *mapping) status(stored *v1alpha1.UpdateStateStatus, own *ledger.State) {
	part(m, "actingSince", &stored.ActingSince, &own.ActingSince, (*mapping).micro)
	part(m, "actingNewestPod", &stored.ActingNewestPod, &own.ActingNewest, (*mapping).seconds)
	part(m, "lastEviction", &stored.LastEviction, &own.LastEviction, (*mapping).micro)
	list(m, "actingOn", v1alpha1.MaxActingGroups, &stored.ActingOn, &own.Acting, (*mapping).acting)
	record(m, "evictions", &stored.Evictions, &own.Eviction, (*mapping).eviction)
	record(m, "lastDeletion", &stored.LastDeletion, &own.Deletion, (*mapping).deletion)
	record(m, "evictionRounds", &stored.EvictionRounds, &own.Rounds, (*mapping).rounds)
	list(m, "roomShortages", v1alpha1.MaxRoomShortages, &stored.RoomShortages, &own.Shortages, (*mapping).shortage)
	record(m, "capacity", &stored.Capacity, &own.Capacity, (*mapping).capacity)
	list(m, "missingReplacements", v1alpha1.MaxMissingReplacements, &stored.MissingReplacements, &own.Replacements, (*mapping).replacement)
	part(m, "omittedPods", &stored.OmittedPods, &own.Omitted, (*mapping).count)
	list(m, "pods", v1alpha1.MaxPodUpdates, &stored.Pods, &own.Pods, (*mapping).pod)
	list(m, "changes", v1alpha1.MaxRequestChanges, &stored.Changes, &own.Changes, (*mapping).change)
	list(m, "waitingPods", v1alpha1.MaxWaitingPods, &stored.WaitingPods, &own.Waiting, (*mapping).waiting)
	record(m, "canary", &stored.Canary, &own.Canary, (*mapping).canary)
}

func (m *mapping) acting(stored *v1alpha1.ActingGroup, own *ledger.ActingGroup) {
	m.time(&stored.Since, &own.Since)
	if m.storing {
		stored.Workloads = []v1alpha1.ActingWorkload{} // required, even if there are none
	}
	each(m, v1alpha1.MaxActingWorkloads, &stored.Workloads, &own.Workloads, func(m *mapping, stored *v1alpha1.ActingWorkload, own *ledger.ActingWorkload) {
		m.workload(&stored.WorkloadReference, &own.Workload)
		m.seconds(&stored.NewestPod, &own.Newest)
	})
}

func (m *mapping) eviction(stored *v1alpha1.EvictionRecord, own *ledger.EvictionState) {
	m.need(!stored.LastTime.IsZero(), errEmpty)
	m.priorEviction(&stored.PriorEviction, own)
	m.sizes(&stored.Superseded, &own.Superseded)
	m.sizes(&stored.Previous, &own.Previous)
	same(m, &stored.UnansweredPod, &own.Uncertain)
	optional(m, &stored.Before, &own.Before, (*mapping).priorEviction)
}

func (m *mapping) priorEviction(stored *v1alpha1.PriorEviction, own *ledger.EvictionState) {
	m.time(&stored.LastTime, &own.At)
	m.micro(&stored.NewestPod, &own.Newest)
	m.sizes(&stored.Requested, &own.With)
	m.count(&stored.Ineffective, &own.Ineffective)
	same(m, &stored.Judged, &own.Judged)
	m.count(&stored.UnknownEffect, &own.UnknownEffect)
}

func (m *mapping) deletion(stored *v1alpha1.DeletionRecord, own *ledger.DeletionState) {
	m.need(!stored.LastTime.IsZero(), errEmpty)
	m.time(&stored.LastTime, &own.At)
	m.micro(&stored.NewestPod, &own.Newest)
	same(m, &stored.UID, &own.UID)
	m.count(&stored.Ineffective, &own.Again)
	switch {
	case m.storing:
		stored.Memory = resource.NewQuantity(own.Memory, resource.BinarySI)
	case stored.Memory != nil:
		own.Memory = stored.Memory.Value()
	}
}

func (m *mapping) rounds(stored *v1alpha1.EvictionRounds, own *ledger.RoundsState) {
	m.need(!stored.LastTime.IsZero(), errEmpty)
	m.time(&stored.LastTime, &own.At)
	m.micro(&stored.NewestPod, &own.Newest)
	m.count(&stored.Count, &own.Count)
}

func (m *mapping) shortage(stored *v1alpha1.RoomShortage, own *ledger.ShortageState) {
	same(m, &stored.UID, &own.UID)
	same(m, &stored.Name, &own.Name)
	m.time(&stored.Since, &own.Since)
	m.sizes(&stored.Requested, &own.With)
	m.count(&stored.PartialResizes, &own.Parts)
	m.count(&stored.MovedPods, &own.Moves)
	m.need(own.UID != "", errNoUID)
	m.need(!own.Since.IsZero(), errNoSince)
}

func (m *mapping) capacity(stored *v1alpha1.CapacityRecord, own *headroom.State) {
	same(m, &stored.UID, &own.UID)
	same(m, &stored.Pod, &own.Pod)
	m.micro(&stored.RequestTime, &own.Requested)
	m.count(&stored.Failures, &own.Failures)
	m.micro(&stored.FailureTime, &own.Failed)
	same(m, &stored.Message, &own.Text)
}

func (m *mapping) replacement(stored *v1alpha1.MissingReplacement, own *ledger.PendingState) {
	m.workload(&stored.Controller, &own.Controller)
	same(m, &stored.VerticalPodAutoscaler, &own.Autoscaler.Name)
	if !m.storing {
		own.Autoscaler.Namespace = m.namespace
	}
	m.micro(&stored.CompleteSince, &own.Complete)
	same(m, &stored.Replaced, &own.Replaced)
	same(m, &stored.MostReplicas, &own.Most)
	each(m, v1alpha1.MaxEvictedPods, &stored.Evicted, &own.Evicted, func(m *mapping, stored *v1alpha1.EvictedPod, own *ledger.EvictedPod) {
		same(m, &stored.UID, &own.UID)
		m.time(&stored.Time, &own.At)
		m.micro(&stored.NewestPod, &own.Newest)
	})
}

func (m *mapping) pod(stored *v1alpha1.PodUpdate, own *ledger.PodState) {
	name(m, "action", actions, &stored.Action, &own.Do)
	same(m, &stored.UID, &own.UID)
	same(m, &stored.Name, &own.Name)
	m.time(&stored.LastTime, &own.At)
	m.count(&stored.Attempts, &own.Attempts)
	m.sizes(&stored.Requested, &own.With)
	m.need(own.UID != "", errNoUID)
	m.need(!own.At.IsZero(), errNoLastTime)
	switch {
	case m.storing && own.Failed == nil:
		stored.Outcome = outcomeDone
	case stored.Outcome == outcomeDone:
		own.Done = true
	default:
		if !m.storing {
			own.Failed = new(ledger.FailedState)
		}
		m.seconds(&stored.NextTime, &own.Next)
		m.failure(stored, own.Failed)
	}
}

func (m *mapping) failure(stored *v1alpha1.PodUpdate, own *ledger.FailedState) {
	name(m, "outcome", outcomes, &stored.Outcome, &own.Kind)
	same(m, &stored.Message, &own.Text)
	m.count(&stored.TransientFailures, &own.Transient)
	m.count(&stored.ReadyPods, &own.Ready)
	m.micro(&stored.LastUnanswered, &own.Lost)
	m.micro(&stored.UnansweredSince, &own.LostSince)
	m.micro(&stored.FailingSince, &own.Failing)
	m.sizes(&stored.OverQuota, &own.OverQuota)
	m.micro(&stored.OverQuotaTime, &own.OverQuotaAt)
	if own.OverQuotaTotal != (cluster.PodResources{}) {
		stored.OverQuotaTotal = new(v1alpha1.RequestedTotal)
	}
	if total := stored.OverQuotaTotal; total != nil {
		m.amounts(&total.Requests, &own.OverQuotaTotal.Requests)
		m.amounts(&total.Limits, &own.OverQuotaTotal.Limits)
	}
}

func (m *mapping) sizes(stored *[]v1alpha1.RequestedSize, own *[]policy.Fitted) {
	each(m, v1alpha1.MaxRequestedSizes, stored, own, (*mapping).size)
}

func (m *mapping) size(stored *v1alpha1.RequestedSize, own *policy.Fitted) {
	before := m.err
	same(m, &stored.Container, &own.Container)
	m.amounts(&stored.Requests, &own.Requests)
	m.amounts(&stored.Limits, &own.Limits)
	same(m, &stored.Inserted, &own.Inserted)
	if before == nil && m.err != nil {
		m.err = fmt.Errorf("container %.63q: %w", stored.Container, m.err)
	}
}

func (m *mapping) change(stored *v1alpha1.RequestChange, own *rollout.Change) {
	at := &stored.Time
	m.seconds(&at, &own.At)
	stored.Time = *at
	m.need(!own.At.IsZero(), errEmpty)
	m.amounts(&stored.Requests, &own.Requests)
}

func (m *mapping) waiting(stored *v1alpha1.WaitingPods, own *ledger.WaitingState) {
	m.need(stored.Reason != "" && stored.Pods > 0, errEmpty)
	same(m, &stored.Reason, &own.Reason)
	m.count(&stored.Pods, &own.Pods)
	same(m, &stored.FirstPod, &own.First)
	m.seconds(&stored.NotBefore, &own.NotBefore)
}

// CanaryState returns the state in a record of a namespace.
func CanaryState(c *v1alpha1.CanaryRecord, namespace string) (rollout.State, error) {
	m := mapping{namespace: namespace}
	var out rollout.State
	m.canary(c, &out)
	return out, m.err
}

func (m *mapping) canary(stored *v1alpha1.CanaryRecord, own *rollout.State) {
	name(m, "canary phase", phases, &stored.Phase, &own.Phase)
	same(m, &stored.Pod, &own.Pod)
	same(m, &stored.UID, &own.UID)
	m.micro(&stored.SinceTime, &own.Since)
	m.micro(&stored.UntilTime, &own.Until)
	each(m, v1alpha1.MaxRequestedSizes, &stored.Before, &own.Before, (*mapping).requests)
	each(m, v1alpha1.MaxRequestedSizes, &stored.After, &own.After, (*mapping).requests)
	same(m, &stored.Restarts, &own.Restarts)
	name(m, "cause", causes, &stored.Cause, &own.Cause)
	m.count(&stored.Reverts, &own.Reverts)
	m.count(&stored.ThrottledPercent, &own.Throttled)
	m.count(&stored.ThrottledBeforePercent, &own.ThrottledBefore)
	if m.storing {
		stored.Throttling = comparisons[own.Comparison]
	} else {
		own.Comparison, _ = named(comparisons, stored.Throttling) // an unknown one counts as none
	}
	if !own.Controller.IsZero() {
		stored.Controller = new(v1alpha1.WorkloadReference)
	}
	if stored.Controller != nil {
		m.workload(stored.Controller, &own.Controller)
	}
}

// requests converts a size without limits.
func (m *mapping) requests(stored *v1alpha1.RequestedSize, own *rollout.Size) {
	size := policy.Fitted{Container: own.Container, Requests: own.Requests}
	m.size(stored, &size)
	if !m.storing {
		*own = rollout.Size{Container: size.Container, Requests: size.Requests}
	}
}
