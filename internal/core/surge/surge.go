// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package surge decides on the steps of a surge, which replaces a pod of a Deployment without taking it out of service first. Package plan
// decides which pods are replaced in this way.
//
// The state of a surge is the record on the Deployment (cluster.Surge), which is written in the same request as spec.replicas, so that it
// survives a restart of the updater:
//
//	no record ─ Start ─▶ raised ─ Next: Lower ─▶ lowered ─ Next: Forget ─▶ no record
//	                       │                       (the ReplicaSet removes the pod)
//	                       └─ TakeBack: the new pod is not ready in time, a rollout or an HPA ─▶ no record
//	                       └─ Forget: others changed spec.replicas, so their number stays ─────▶ no record
//
// While raised, the pod to remove has the lowest deletion cost (Mark). It gets its own deletion cost back if the surge ends without its
// removal.
package surge

import (
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/wording"
)

// A Step is the next request of a surge.
type Step uint8

// The steps.
const (
	Wait     Step = iota // nothing is due
	Mark                 // give the pod the lowest deletion cost
	Lower                // set spec.replicas back, and keep the record until the pod is gone
	TakeBack             // set spec.replicas back and remove the record
	Forget               // remove the record only
)

// Times of a surge.
const (
	Within       = 10 * time.Minute // until the new pod is ready; as the default progress deadline of a Deployment
	RemoveWithin = 2 * time.Minute  // until the ReplicaSet has removed the pod
)

// A Move is the next step of a surge.
type Move struct {
	Do     Step
	Unmark bool              // before the step, the pod gets its deletion cost back
	Pod    *cluster.Pod      // the pod to remove; nil if it is gone
	Failed *decision.Refusal // why the surge ends without the removal of the pod; nil if it goes on or succeeds
	At     time.Time         // when the next step is due if no pod changes until then; zero if it waits for a change
}

// Start returns the record of a new surge for a pod, or why the Deployment cannot surge now.
func Start(now time.Time, d *cluster.Deployment, p *cluster.Pod) (cluster.Surge, *decision.Refusal) {
	switch {
	case d.Owned:
		return cluster.Surge{}, &decision.Refusal{Kind: decision.Unsupported, Text: "another controller owns the Deployment and may write its replicas"}
	case d.Exclusive:
		return cluster.Surge{}, &decision.Refusal{Kind: decision.Unsupported, Text: exclusiveText}
	case d.Recorded || d.Deleting:
		return cluster.Surge{}, &decision.Refusal{Kind: decision.ServerBusy, Text: "the Deployment has another surge, or is being deleted"}
	case !d.Observed || d.Pods != d.Replicas || d.Updated != d.Replicas || d.Replicas < 1:
		return cluster.Surge{}, &decision.Refusal{Kind: decision.ServerBusy, Text: fmt.Sprintf("a rollout or a scaling is in progress: %d replicas, %d pods, %d of the newest revision", d.Replicas, d.Pods, d.Updated)}
	}
	return cluster.Surge{Replicas: d.Replicas, Pod: p.Name, UID: p.UID, Cost: p.DeletionCost, Deadline: now.Add(Within)}, nil
}

// exclusiveText is why a Deployment whose strategy allows no additional pod is not surged: two of its pods may damage their data.
const exclusiveText = "the strategy of the Deployment (Recreate, or maxSurge 0) allows no additional pod"

// Next returns the next step of the surge that is recorded on a Deployment. pods are the pods of the Deployment; scaled is true if
// an HPA scales it, and resumed if no step could be taken before, because of a freeze or because no updater ran. spec.replicas is only written while it
// has the value that podfit wrote.
func Next(now time.Time, d *cluster.Deployment, pods []*cluster.Pod, scaled, resumed bool) Move {
	s := d.Surge
	switch {
	case s == nil || d.Deleting:
		return Move{}
	case d.Foreign:
		return Move{Do: Forget, Failed: &decision.Refusal{Kind: decision.ServerBusy, Text: "another client wrote the record, for example \"kubectl rollout undo\", which copies it from a ReplicaSet"}}
	}
	v := view{now: now, d: d, Surge: s, pods: pods}
	for _, p := range pods {
		if p.UID == s.UID && p.Live() {
			v.old = p
		}
	}
	if s.Lowered {
		return v.lowered()
	}
	return v.raised(scaled, resumed)
}

// A view is the input of Next.
type view struct {
	*cluster.Surge
	now  time.Time
	d    *cluster.Deployment
	pods []*cluster.Pod
	old  *cluster.Pod // the pod to remove, while it lives
}

func (v *view) lowered() Move {
	switch {
	case v.old == nil:
		return Move{Do: Forget}
	case v.d.Replicas != v.Replicas:
		return v.end(Forget, decision.ServerBusy, fmt.Sprintf("spec.replicas was changed from %d to %d meanwhile", v.Replicas, v.d.Replicas))
	case v.isLate(RemoveWithin):
		return v.end(Forget, decision.ServerBusy, "the ReplicaSet removed another pod")
	}
	return Move{Pod: v.old}
}

// raised decides while the Deployment has one replica more.
func (v *view) raised(scaled, resumed bool) Move {
	others, ready, completeAt := v.others()
	complete := others == int(v.Replicas) && ready == others
	switch {
	case v.d.Replicas != v.Replicas+1:
		return v.end(Forget, decision.ServerBusy, fmt.Sprintf("spec.replicas was changed from %d to %d meanwhile", v.Replicas+1, v.d.Replicas))
	case v.old == nil:
		return Move{Do: TakeBack}
	case scaled:
		return v.end(TakeBack, decision.Unsupported, "a HorizontalPodAutoscaler scales the Deployment now")
	case v.d.Observed && v.d.Updated != v.d.Pods, slices.ContainsFunc(v.pods, func(p *cluster.Pod) bool { return p.Live() && p.Controller != v.old.Controller }):
		return v.end(TakeBack, decision.ServerBusy, "a rollout began meanwhile")
	case v.d.Exclusive:
		return v.end(TakeBack, decision.Unsupported, exclusiveText)
	case complete && v.d.Observed && v.isMarked(): // also after the deadline, because the updater may have been away
		return Move{Do: Lower, Pod: v.old}
	case v.isLate(Within) && !(resumed && complete && !v.isMarked()): // which may not have been tried
		kind, text := v.cause(others, complete)
		return v.end(TakeBack, kind, text)
	case !v.isMarked():
		return Move{Do: Mark, Pod: v.old, At: completeAt}
	}
	return Move{Pod: v.old, At: completeAt}
}

// end returns the end of a surge whose pod lives on.
func (v *view) end(do Step, kind decision.RefusalKind, text string) Move {
	marked := v.old != nil && v.isMarked() && v.Cost != cluster.LowestDeletionCost
	return Move{Do: do, Unmark: marked, Pod: v.old, Failed: &decision.Refusal{Kind: kind, Text: text}}
}

func (v *view) isMarked() bool { return v.old.DeletionCost == cluster.LowestDeletionCost }

// isLate reports whether the deadline has passed. A deadline that is too far in the future was written with another clock.
func (v *view) isLate(within time.Duration) bool {
	return !v.now.Before(v.Deadline) || v.Deadline.After(v.now.Add(2*within))
}

// others returns the number of other pods that the ReplicaSet counts, and of those among them that are ready for spec.minReadySeconds.
// If all of them are ready, the ReplicaSet removes the marked pod first, whether or not that is ready. It does not count pods that
// terminate: one on a lost node would delay the surge without end. completeAt is when all of them will have been ready for that long; zero if
// one of them is missing or not ready.
func (v *view) others() (all, ready int, completeAt time.Time) {
	serving := 0
	for _, p := range v.pods {
		if p.UID == v.UID || !p.Live() {
			continue
		}
		all++
		if p.Serves() {
			serving++
			completeAt = cluster.Latest(completeAt, p.ReadySince.Add(v.d.MinReady))
		}
		if p.Serves() && !v.now.Before(p.ReadySince.Add(v.d.MinReady)) {
			ready++
		}
	}
	if serving < all || all != int(v.Replicas) || !completeAt.After(v.now) {
		return all, ready, time.Time{}
	}
	return all, ready, completeAt
}

// cause returns why the new pod is not ready in time. If it does not exist or has no node, an eviction may help, because the pod to
// remove gives up what the new one lacks.
func (v *view) cause(others int, complete bool) (decision.RefusalKind, string) {
	if complete && !v.isMarked() {
		return decision.Denied, "the deletion cost of the pod could not be set"
	}
	if others < int(v.Replicas) {
		return decision.DeniedByQuota, "no additional pod was created, for example because of a ResourceQuota"
	}
	for _, p := range v.pods {
		if p.Live() && p.UID != v.UID && p.Node == "" {
			return decision.DeniedByNode, "no node has room for the additional pod " + p.Name
		}
	}
	return decision.NotReadyInTime, fmt.Sprintf("not all pods were ready within %s", wording.Span(Within))
}
