// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "podfit.dev/podfit/internal/core/decision"

// surges reports whether a surge replaces the pod, and not an eviction. forRoom is true if the pod moves to make room.
func (t *decider) surges(forRoom bool) bool {
	return t.surge.Replaces(t.d.Decision, forRoom) && t.quotas.AdmitsBeside(t.d.Decision) // the additional pod counts beside all others
}

// endSurge lets the pass begin a surge for another pod of the workload.
func (s *pass) endSurge(d *entry) {
	if d.scope != nil {
		d.scope.surge.End(d.Pod)
	}
}

// move decides on the surge or the eviction of a pod that moves to make room, if no check blocks it. A pod that can be surged is not evicted
// because its surge must wait, for example for another one of the workload.
func (t *decider) move(replace, evict kind, because decision.ReasonCode) {
	if t.surges(true) {
		t.try(decision.Surge, replace, because)
		return
	}
	t.try(decision.Evict, evict, because)
}

// isMovable reports whether move would move the pod.
func (t *decider) isMovable(replace, evict kind) bool {
	if t.surges(true) {
		return !t.isBlocked(t.d, replace)
	}
	return !t.isBlocked(t.d, evict)
}
