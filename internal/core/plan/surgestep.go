// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A surge replaces a pod of a Deployment without taking it out of service first. Its state is the record on the Deployment
// (cluster.Surge), which is written in the same request as spec.replicas, so that it survives a restart of the updater:
//
//	no record ─ StartSurge ─▶ raised ─ NextSurge: SurgeLower ─▶ lowered ─ NextSurge: SurgeForget ─▶ no record
//	                            │                                 (the ReplicaSet removes the pod)
//	                            └─ SurgeTakeBack: the new pod is not ready in time, a rollout or an HPA ─▶ no record
//	                            └─ SurgeForget: others changed spec.replicas, so their number stays ─────▶ no record
//
// While raised, the pod to remove has the lowest deletion cost (SurgeMark). It gets its own deletion cost back if the surge ends
// without its removal.

// A SurgeStep is the next request of a surge.
type SurgeStep uint8

// The steps.
const (
	SurgeWait     SurgeStep = iota // nothing is due
	SurgeMark                      // give the pod the lowest deletion cost
	SurgeLower                     // set spec.replicas back, and keep the record until the pod is gone
	SurgeTakeBack                  // set spec.replicas back and remove the record
	SurgeForget                    // remove the record only
)

// Times of a surge.
const (
	surgeFor  = 10 * time.Minute // until the new pod is ready; as the default progress deadline of a Deployment
	removeFor = 2 * time.Minute  // until the ReplicaSet has removed the pod
)

// RemovalDeadline returns until when the ReplicaSet must have removed a pod after spec.replicas is set back.
func RemovalDeadline(now time.Time) time.Time { return now.Add(removeFor) }

// A SurgeMove is the next step of a surge.
type SurgeMove struct {
	Do     SurgeStep
	Unmark bool         // before the step, the pod gets its deletion cost back
	Pod    *cluster.Pod // the pod to remove; nil if it is gone
	Failed *Refusal     // why the surge ends without the removal of the pod; nil if it goes on or succeeds
}

// StartSurge returns the record of a new surge for a pod, or why the Deployment cannot surge now.
func StartSurge(now time.Time, d *cluster.Deployment, p *cluster.Pod) (cluster.Surge, *Refusal) {
	switch {
	case d.Owned:
		return cluster.Surge{}, &Refusal{Kind: Unsupported, Text: "another controller owns the Deployment and may write its replicas"}
	case d.Exclusive:
		return cluster.Surge{}, &Refusal{Kind: Unsupported, Text: exclusiveText}
	case d.Recorded || d.Deleting:
		return cluster.Surge{}, &Refusal{Kind: ServerBusy, Text: "the Deployment has another surge, or is being deleted"}
	case !d.Observed || d.Pods != d.Replicas || d.Updated != d.Replicas || d.Replicas < 1:
		return cluster.Surge{}, &Refusal{Kind: ServerBusy, Text: fmt.Sprintf("a rollout or a scaling is in progress: %d replicas, %d pods, %d of the newest revision", d.Replicas, d.Pods, d.Updated)}
	}
	return cluster.Surge{Replicas: d.Replicas, Pod: p.Name, UID: p.UID, Cost: p.DeletionCost, Deadline: now.Add(surgeFor)}, nil
}

// exclusiveText is why a Deployment whose strategy allows no additional pod is not surged: two of its pods may damage their data.
const exclusiveText = "the strategy of the Deployment (Recreate, or maxSurge 0) allows no additional pod"

// NextSurge returns the next step of the surge that is recorded on a Deployment. pods are the pods of the Deployment; scaled is true if
// an HPA scales it. spec.replicas is only written while it has the value that podfit wrote.
func NextSurge(now time.Time, d *cluster.Deployment, pods []*cluster.Pod, scaled bool) SurgeMove {
	s := d.Surge
	switch {
	case s == nil || d.Deleting:
		return SurgeMove{}
	case d.Foreign:
		return SurgeMove{Do: SurgeForget, Failed: &Refusal{Kind: ServerBusy, Text: "another client wrote the record, for example \"kubectl rollout undo\", which copies it from a ReplicaSet"}}
	}
	v := surgeView{now: now, d: d, Surge: s, pods: pods}
	for _, p := range pods {
		if p.UID == s.UID && p.Live() {
			v.old = p
		}
	}
	if s.Lowered {
		return v.lowered()
	}
	return v.raised(scaled)
}

// A surgeView is the input of NextSurge.
type surgeView struct {
	*cluster.Surge
	now  time.Time
	d    *cluster.Deployment
	pods []*cluster.Pod
	old  *cluster.Pod // the pod to remove, while it lives
}

// lowered decides after spec.replicas was set back.
func (v *surgeView) lowered() SurgeMove {
	switch {
	case v.old == nil:
		return SurgeMove{Do: SurgeForget}
	case v.d.Replicas != v.Replicas:
		return v.end(SurgeForget, ServerBusy, fmt.Sprintf("spec.replicas was changed from %d to %d meanwhile", v.Replicas, v.d.Replicas))
	case v.isLate(removeFor):
		return v.end(SurgeForget, ServerBusy, "the ReplicaSet removed another pod")
	}
	return SurgeMove{Pod: v.old}
}

// raised decides while the Deployment has one replica more.
func (v *surgeView) raised(scaled bool) SurgeMove {
	others, ready := v.others()
	complete := others == int(v.Replicas) && ready == others
	switch {
	case v.d.Replicas != v.Replicas+1:
		return v.end(SurgeForget, ServerBusy, fmt.Sprintf("spec.replicas was changed from %d to %d meanwhile", v.Replicas+1, v.d.Replicas))
	case v.old == nil:
		return SurgeMove{Do: SurgeTakeBack}
	case scaled:
		return v.end(SurgeTakeBack, Unsupported, "a HorizontalPodAutoscaler scales the Deployment now")
	case v.d.Observed && v.d.Updated != v.d.Pods || v.hasOtherRevision():
		return v.end(SurgeTakeBack, ServerBusy, "a rollout began meanwhile")
	case v.d.Exclusive:
		return v.end(SurgeTakeBack, Unsupported, exclusiveText)
	case complete && v.d.Observed && v.isMarked(): // also after the deadline, because the updater may have been away
		return SurgeMove{Do: SurgeLower, Pod: v.old}
	case v.isLate(surgeFor):
		kind, text := v.cause(others, complete)
		return v.end(SurgeTakeBack, kind, text)
	case !v.isMarked():
		return SurgeMove{Do: SurgeMark, Pod: v.old}
	}
	return SurgeMove{Pod: v.old}
}

// end returns the end of a surge whose pod lives on.
func (v *surgeView) end(do SurgeStep, kind RefusalKind, text string) SurgeMove {
	marked := v.old != nil && v.isMarked() && v.Cost != cluster.LowestDeletionCost
	return SurgeMove{Do: do, Unmark: marked, Pod: v.old, Failed: &Refusal{Kind: kind, Text: text}}
}

// isMarked reports whether the pod to remove has the lowest deletion cost.
func (v *surgeView) isMarked() bool { return v.old.DeletionCost == cluster.LowestDeletionCost }

// isLate reports whether the deadline has passed. A deadline that is too far in the future was written with another clock.
func (v *surgeView) isLate(within time.Duration) bool {
	return !v.now.Before(v.Deadline) || v.Deadline.After(v.now.Add(2*within))
}

// others returns the number of other pods that the ReplicaSet counts, and of those among them that are ready for spec.minReadySeconds.
// If all of them are ready, the ReplicaSet removes the marked pod first, whether or not that is ready. It does not count pods that
// terminate: one on a lost node would delay the surge without end.
func (v *surgeView) others() (all, ready int) {
	for _, p := range v.pods {
		if p.UID == v.UID || !p.Live() {
			continue
		}
		all++
		if serves(p) && !v.now.Before(p.ReadySince.Add(v.d.MinReady)) {
			ready++
		}
	}
	return all, ready
}

// hasOtherRevision reports whether a live pod belongs to another ReplicaSet than the pod to remove.
func (v *surgeView) hasOtherRevision() bool {
	for _, p := range v.pods {
		if p.Live() && p.Controller != v.old.Controller {
			return true
		}
	}
	return false
}

// cause returns why the new pod is not ready in time. If it does not exist or has no node, an eviction may help, because the pod to
// remove gives up what the new one lacks.
func (v *surgeView) cause(others int, complete bool) (RefusalKind, string) {
	if complete && !v.isMarked() {
		return Denied, "the deletion cost of the pod could not be set"
	}
	if others < int(v.Replicas) {
		return DeniedByQuota, "no additional pod was created, for example because of a ResourceQuota"
	}
	for _, p := range v.pods {
		if p.Live() && p.UID != v.UID && p.Node == "" {
			return DeniedByNode, "no node has room for the additional pod " + p.Name
		}
	}
	return NotReadyInTime, fmt.Sprintf("not all pods were ready within %s", span(surgeFor))
}
