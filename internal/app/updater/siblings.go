// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/decision"
)

// add appends actions to the queues, and counts the resizes among them.
func (e *execution) add(queues *lanes, actions []decision.Decision) {
	e.mu.Lock()
	for i := range actions {
		if actions[i].Do == decision.Resize {
			e.queued[actions[i].Pod.Controller]++
		}
	}
	e.mu.Unlock()
	queues.add(actions)
}

// sent notes that a resize has left its queue. It is sent as soon as a worker is free, or not at all in this pass.
func (e *execution) sent(d *decision.Decision) {
	if d.Do != decision.Resize {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queued[d.Pod.Controller]--
	e.inFlight[d.Pod.Controller]++
	if freesRoom(d) {
		e.shrinking[d.Pod.Node]++
	}
}

// answered notes that the outcome of a resize is recorded, or that it is not sent in this pass.
func (e *execution) answered(d *decision.Decision) {
	if d.Do != decision.Resize {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight[d.Pod.Controller]--
	if freesRoom(d) {
		e.shrinking[d.Pod.Node]--
	}
	e.progress.Broadcast()
}

// slow notes that resizes wait for the rate limit.
func (e *execution) slow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slowed = true
	e.progress.Broadcast()
}

// overQuota reports whether a quota has refused a resize of the same controller since an eviction was planned, and returns the reason to
// leave the pod. It first waits for the answers to the resizes of the controller: they show whether the quota admits the replacement. A
// resize that has not left its queue counts, too, because the resizes of a controller are sent one after the other. But while resizes
// wait for the rate limit, only those that have left the queue count: the limit may not allow the others in this pass. Resizes never wait
// for evictions, so the wait ends with the resizes of the pass.
func (e *execution) overQuota(_ context.Context, d *turn) (decision.Reason, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.pass.DependsOnResizes(d.Decision) {
		return decision.Reason{}, false
	}
	controller := d.Pod.Controller
	for e.inFlight[controller] > 0 || e.queued[controller] > 0 && !e.slowed {
		e.progress.Wait()
	}
	return e.pass.OverQuota(d.Decision)
}

// freesRoom reports whether growing pods wait for a resize. They do not wait for the ends of startup boosts, which are carried out a few at a
// time: a growth among them could wait for one that follows it.
func freesRoom(d *decision.Decision) bool {
	return len(d.Unboost) == 0 && change.Shrinks(d.Pod, d.With)
}

// shrinkPatience is how long the growing pods of a node wait in a pass for the answers to the resizes that lower requests there. A webhook
// that hangs for one pod must not delay the others for long.
const shrinkPatience = 2 * time.Second

// afterShrinks waits, before a resize that raises requests, until the resizes that only lower requests on its node are answered: the kubelet
// would defer it otherwise. They are in front of it in the queue if it needs their room.
func (e *execution) afterShrinks(d *decision.Decision) {
	if d.Do != decision.Resize || len(d.Unboost) > 0 || !change.Grows(d.Pod, d.With) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	node := d.Pod.Node
	if e.shrinking[node] == 0 || e.impatient[node] {
		return
	}
	timer := time.AfterFunc(shrinkPatience, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.impatient[node] = true
		e.progress.Broadcast()
	})
	defer timer.Stop()
	for e.shrinking[node] > 0 && !e.impatient[node] {
		e.progress.Wait()
	}
}
