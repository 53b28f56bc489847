// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"podfit.dev/podfit/internal/core/decision"
)

// resizeSent notes that a resize is being sent. The returned function must be called with its answer recorded. Until then, evictions
// that a refusal by a quota would block wait.
func (e *execution) resizeSent(d *decision.Decision) (answered func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight[d.Pod.Controller]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.inFlight[d.Pod.Controller]--
		e.answered.Broadcast()
	}
}

// overQuota reports whether a quota has refused a resize of the same controller since an eviction was planned, and returns the reason to
// leave the pod. It first waits for the resizes that have been sent: their answers show whether the quota admits the replacement. The
// wait is bounded by the time-out of a request, and resizes never wait for evictions.
func (e *execution) overQuota(d *decision.Decision) (decision.Reason, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.pass.DependsOnResizes(*d) {
		return decision.Reason{}, false
	}
	for e.inFlight[d.Pod.Controller] > 0 {
		e.answered.Wait()
	}
	return e.pass.OverQuota(*d)
}
