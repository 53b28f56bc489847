// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surge

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A Mover selects how pods are replaced (--mover).
type Mover string

// The movers.
const (
	ByEviction Mover = "evict" // always by an eviction
	ForRoom    Mover = "room"  // by a surge, if the pod moves to make room (--make-room=move)
	BySurge    Mover = "surge" // by a surge
)

// IsValid reports whether there is such a mover.
func (m Mover) IsValid() bool { return m == ByEviction || m == ForRoom || m == BySurge }

// State is the surges of the cluster. Without it, pods are only evicted.
type State struct {
	Active map[cluster.Workload]cluster.Surge // in progress, by Deployment; the record may be empty if it is not known
	Scaled map[cluster.Workload]bool          // workloads with an HPA
	Due    time.Time                          // when the next step of a surge is due if no pod changes until then; zero if there is none
}

// Has reports whether a surge of a Deployment is in progress, as far as is known.
func (s *State) Has(deployment cluster.Workload) bool {
	if s == nil {
		return false
	}
	_, active := s.Active[deployment]
	return active
}

// Removes reports whether a surge removes the pod.
func (s *State) Removes(p *cluster.Pod) bool { return s.Has(p.Top) && s.Active[p.Top].UID == p.UID }

// Leaves reports whether a surge removes the pod soon. One whose deadline is over may last, for example as long as a freeze does.
func (s *State) Leaves(now time.Time, p *cluster.Pod) bool {
	return s.Removes(p) && now.Before(s.Active[p.Top].Deadline)
}

// A Gate tells whether pods of one autoscaler may be surged in a pass. It is not safe for concurrent use.
type Gate struct {
	Now    time.Time
	State  *State
	Mover  Mover // of the flag
	Pods   []*cluster.Pod
	Ledger *ledger.Ledger
	Delays *attempt.Delays

	begun    map[cluster.Workload]*cluster.Pod // the pod for which this pass begins a surge
	failed   ledger.FailedAttempt              // the last failed surge after which a pod is not evicted instead
	failures int                               // of the surges of all pods
	known    bool                              // failed and failures are set
}

// Replaces reports whether a surge replaces a pod, and not an eviction. forRoom is true if the pod moves to make room. Where a surge is not
// possible, or has shown that it lacks what an eviction would free, the pod is evicted.
func (g *Gate) Replaces(d *decision.Decision, forRoom bool) bool {
	mover := g.Mover
	p := d.Pod
	if own := Mover(d.Autoscaler.Mover); own.IsValid() {
		mover = own
	}
	switch {
	case g.State == nil || mover == ByEviction || mover == ForRoom && !forRoom || d.Rescue || d.Autoscaler.Canary.On:
		return false
	case p.Top.Kind != "Deployment" || p.Top.Group != "apps" || p.Controller.Kind != "ReplicaSet":
		return false
	case g.State.Scaled[p.Top] || !p.Serves():
		return false
	}
	last, failed := g.Ledger.LastFailure(p, decision.Surge)
	return !failed || !last.Kind.AllowsEviction()
}

// Begin notes that this pass begins a surge for a pod.
func (g *Gate) Begin(p *cluster.Pod) { cluster.Put(&g.begun, p.Top, p) }

// End lets the pass begin a surge for another pod of the workload instead.
func (g *Gate) End(p *cluster.Pod) {
	if g.begun[p.Top] == p {
		delete(g.begun, p.Top)
	}
}

// InProgress returns why a surge of a pod must wait for another one of the workload.
func (g *Gate) InProgress(p *cluster.Pod) (decision.Reason, bool) {
	if g.State.Has(p.Top) {
		active := g.State.Active[p.Top]
		return decision.Reason{Code: decision.Surging, Text: active.Pod, Until: active.Deadline}, true
	}
	if other := g.begun[p.Top]; other != nil && other != p {
		return decision.Reason{Code: decision.Surging, Text: other.Name, Until: g.Now.Add(Within)}, true
	}
	return decision.Reason{}, false
}

// Failed returns why a surge waits after one of the workload failed. The back-off is longer if the additional pod was not ready in time.
func (g *Gate) Failed() (decision.Reason, bool) {
	last, until := g.lastFailed()
	return decision.Reason{Code: decision.SurgeFailed, Text: last.Text, Until: until}, g.Now.Before(until)
}

// NotReady returns why an eviction waits after a surge whose additional pod was not ready in time: the replacement of an evicted pod would not be
// ready either.
func (g *Gate) NotReady() (decision.Reason, bool) {
	r, failed := g.Failed()
	return r, failed && g.failed.Kind == decision.NotReadyInTime
}

// lastFailed returns the last failed surge of the pods after which a pod is not evicted instead, and the end of the back-off, which grows with the
// number of failed surges of all pods; zero if there is none.
func (g *Gate) lastFailed() (last ledger.FailedAttempt, until time.Time) {
	if !g.known {
		g.known = true
		for _, p := range g.Pods {
			r, ok := g.Ledger.LastFailure(p, decision.Surge)
			if !ok || r.Kind.AllowsEviction() {
				continue
			}
			g.failures += r.Attempts
			if r.At.After(g.failed.At) {
				g.failed = r
			}
		}
	}
	switch {
	case g.failed.At.IsZero():
		return g.failed, time.Time{}
	case g.failed.Kind == decision.NotReadyInTime:
		return g.failed, g.failed.At.Add(g.Delays.Backoff(g.failures))
	}
	return g.failed, g.failed.At.Add(attempt.Doubled(g.Delays.RefusalBase, g.Delays.RefusalMax, g.failures))
}
