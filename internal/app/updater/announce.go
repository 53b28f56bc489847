// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
)

// mustAnnounce reports whether a decision is carried out only if it was announced.
func (e *execution) mustAnnounce(d *decision.Decision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pass.MustAnnounce(*d)
}

// heldBy returns why a decision is not carried out, because it is known that it cannot be announced. It takes nothing from the rate limit, so
// it is not carried out in this pass even if the hold ends before.
func (e *execution) heldBy(d *decision.Decision) (decision.Reason, bool) {
	why, held := e.states.Held(e.now, d.Pod.Workload())
	if !held || !e.mustAnnounce(d) {
		return decision.Reason{}, false
	}
	return why, true
}

// notAnnounced stores that the updater acts on the workload of a decision. It reports whether that fails and the decision must be announced. The
// rate limit then allows another action instead.
func (e *execution) notAnnounced(ctx context.Context, d *turn) (decision.Reason, bool) {
	why, announced := e.states.Announce(ctx, e.now, d.Pod.Workload())
	if announced || !e.mustAnnounce(&d.Decision) {
		return decision.Reason{}, false
	}
	e.rates.GiveBack(&d.Decision)
	return why, true
}

// announceRequest announces a request for capacity, which precedes an eviction. It reports whether it may be created.
func (e *execution) announceRequest(ctx context.Context, step *headroom.Step) bool {
	why, announced := e.states.Announce(ctx, e.now, step.Pod.Workload())
	if !announced {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pass.NotAnnounced(step, why)
	}
	return announced
}
