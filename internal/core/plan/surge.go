// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/surge"
)

// A Mover selects how pods are replaced (--mover).
type Mover uint8

// The movers.
const (
	MoveByEviction Mover = iota // always by an eviction
	SurgeForRoom                // by a surge, if the pod moves to make room (--make-room=move)
	MoveBySurge                 // by a surge
)

var moverNames = [...]string{"evict", "room", "surge"}

// String returns the value of the flag.
func (m Mover) String() string { return moverNames[m] }

// ParseMover returns the mover with a name, and false if there is none.
func ParseMover(name string) (Mover, bool) {
	for i, n := range moverNames {
		if n == name {
			return Mover(i), true
		}
	}
	return 0, false
}

// Surges are the surges of the cluster. Without them, pods are only evicted.
type Surges struct {
	Active map[cluster.Workload]cluster.Surge // in progress, by Deployment; the record may be empty if it is not known
	Scaled map[cluster.Workload]bool          // workloads with an HPA
	Due    time.Time                          // when the next step of a surge is due if no pod changes until then; zero if there is none
}

// Has reports whether a surge of a Deployment is in progress, as far as is known.
func (s *Surges) Has(deployment cluster.Workload) bool {
	if s == nil {
		return false
	}
	_, active := s.Active[deployment]
	return active
}

// isSurging reports whether a surge removes the pod.
func (s *pass) isSurging(p *cluster.Pod) bool {
	if s.w.Surges == nil {
		return false
	}
	active, ok := s.w.Surges.Active[p.Top]
	return ok && active.UID == p.UID
}

// surgeChecks are the checks for a surge: those for an eviction, without the minimum number of replicas, disruption budgets and probes. A
// surge takes nothing out of service, and there is at most one of a workload at a time.
var surgeChecks = []check{
	{GateSize, (*candidate).sameSize}, // the first, see moveSurgeChecks
	{GateWindow, (*candidate).switchedOff},
	{GateAdmission, (*candidate).replacementRefused},
	{GateQuota, (*candidate).replacementOverQuota},
	{GateSiblingQuota, (*candidate).siblingOverQuota},
	{GateNodeSize, (*candidate).unplaceable},
	{GateRequirements, (*candidate).requirementsUnmet},
	{GateReplacements, (*candidate).replacementMissing},
	{GateEvictionEffect, (*candidate).backingOff},
	{GateReplicas, (*candidate).replicasUnknown},
	{GateSurge, (*candidate).surging},
	{GateSurgeEffect, (*candidate).surgeFailed},
	{GateCanary, (*candidate).awaitsCanary},
	{GateHourlyShare, (*candidate).overRadius},
	notAnnounced(decision.Surge),
}

// moveSurgeChecks are the checks for a surge that makes room for another pod.
var moveSurgeChecks = append([]check{{GateInterruption, (*candidate).interrupted}}, surgeChecks[1:]...)

// surges reports whether a surge replaces the pod, and not an eviction. forRoom is true if the pod moves to make room. Where a surge is
// not possible, or has shown that it lacks what an eviction would free, the pod is evicted.
func (t *candidate) surges(forRoom bool) bool {
	mover := t.b.Mover
	if own, ok := ParseMover(t.d.Autoscaler.Mover); ok {
		mover = own
	}
	p := t.d.Pod
	switch {
	case t.w.Surges == nil || mover == MoveByEviction || mover == SurgeForRoom && !forRoom || t.d.Rescue || t.d.Autoscaler.Canary.On:
		return false
	case p.Top.Kind != "Deployment" || p.Top.Group != "apps" || p.Controller.Kind != "ReplicaSet":
		return false
	case t.w.Surges.Scaled[p.Top] || !p.Serves():
		return false
	}
	if last, ok := t.w.Ledger.LastFailure(p, decision.Surge); ok && last.Kind.AllowsEviction() {
		return false
	}
	v, known := t.quotaView()
	return !known || !v.firstRefusal(func(*cluster.Quota) {}).Refused() // the additional pod counts beside all others
}

// surging blocks a surge while another one of the workload is in progress.
func (t *candidate) surging() (decision.Reason, bool) {
	p := t.d.Pod
	if t.w.Surges != nil {
		if active, ok := t.w.Surges.Active[p.Top]; ok {
			return decision.Reason{Code: decision.Surging, Text: active.Pod, Until: active.Deadline}, true
		}
	}
	if other := t.surged[p.Top]; other != nil && other != p {
		return decision.Reason{Code: decision.Surging, Text: other.Name, Until: t.now.Add(surge.Within)}, true
	}
	return decision.Reason{}, false
}

// surgeFailed blocks a surge during the back-off after one of the workload failed. The back-off is longer if the additional pod was not
// ready in time.
func (t *candidate) surgeFailed() (decision.Reason, bool) {
	last, until := t.lastFailedSurge()
	return decision.Reason{Code: decision.SurgeFailed, Text: last.Text, Until: until}, t.now.Before(until)
}

// surgeNotReady blocks an eviction during the back-off after a surge whose additional pod was not ready in time: the replacement of an
// evicted pod would not be ready either.
func (t *candidate) surgeNotReady() (decision.Reason, bool) {
	last, until := t.lastFailedSurge()
	return decision.Reason{Code: decision.SurgeFailed, Text: last.Text, Until: until}, last.Kind == decision.NotReadyInTime && t.now.Before(until)
}

// lastFailedSurge returns the last failed surge of the pods of the scope after which a pod is not evicted instead, and the end of the
// back-off, which grows with the number of failed surges of all pods; zero if there is none.
func (t *candidate) lastFailedSurge() (last ledger.FailedAttempt, until time.Time) {
	if t.surgeFailures == nil {
		t.surgeFailures = &failedSurges{}
		for _, p := range t.pods {
			r, ok := t.w.Ledger.LastFailure(p, decision.Surge)
			if !ok || r.Kind.AllowsEviction() {
				continue
			}
			t.surgeFailures.n += r.Attempts
			if r.At.After(t.surgeFailures.last.At) {
				t.surgeFailures.last = r
			}
		}
	}
	last = t.surgeFailures.last
	switch {
	case last.At.IsZero():
		return last, time.Time{}
	case last.Kind == decision.NotReadyInTime:
		return last, last.At.Add(t.b.Backoff(t.surgeFailures.n))
	}
	return last, last.At.Add(ledger.Doubled(t.b.RefusalBase, t.b.RefusalMax, t.surgeFailures.n))
}

// failedSurges are the failed surges of the pods of a scope.
type failedSurges struct {
	n    int
	last ledger.FailedAttempt
}

// beginSurge notes that this pass begins a surge for the pod.
func (t *candidate) beginSurge() {
	if t.surged == nil {
		t.surged = map[cluster.Workload]*cluster.Pod{}
	}
	t.surged[t.d.Pod.Top] = t.d.Pod
}

// endSurge lets the pass begin a surge for another pod of the workload.
func (s *pass) endSurge(d *entry) {
	if d.scope != nil && d.scope.surged[d.Pod.Top] == d.Pod {
		delete(d.scope.surged, d.Pod.Top)
	}
}

// move decides on the surge or the eviction of a pod that moves to make room, if no check blocks it. A pod that can be surged is not evicted
// because its surge must wait, for example for another one of the workload.
func (t *candidate) move(replace, evict []check, because decision.ReasonCode) {
	if t.surges(true) {
		t.try(decision.Surge, replace, because)
		return
	}
	t.try(decision.Evict, evict, because)
}

// isMovable reports whether move would move the pod.
func (t *candidate) isMovable(replace, evict []check) bool {
	if t.surges(true) {
		return !t.isBlocked(t.d, replace)
	}
	return !t.isBlocked(t.d, evict)
}
