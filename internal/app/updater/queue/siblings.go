// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// Siblings are the resizes of a pass that have no answer yet. Some actions on pods of the same controller or node wait for them.
type Siblings struct {
	mu        sync.Mutex
	progress  sync.Cond                // signals that inFlight or shrinking has decreased, or that slowed or impatient is set
	queued    map[cluster.Workload]int // resizes that wait in a queue, by controller
	inFlight  map[cluster.Workload]int // resizes that have left the queue and are not answered, by controller
	slowed    bool                     // a resize has waited for the rate limit in this pass
	shrinking map[string]int           // those of inFlight that only lower requests, by node
	impatient map[string]bool          // nodes whose growing pods wait no longer for answers to such resizes
}

// NewSiblings returns those of a pass that begins.
func NewSiblings() *Siblings {
	s := &Siblings{queued: map[cluster.Workload]int{}, inFlight: map[cluster.Workload]int{}, shrinking: map[string]int{}, impatient: map[string]bool{}}
	s.progress.L = &s.mu
	return s
}

// Add counts the resizes among actions that are added to the queues.
func (s *Siblings) Add(actions []decision.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range actions {
		if actions[i].Do == decision.Resize {
			s.queued[actions[i].Pod.Controller]++
		}
	}
}

// Sent notes that a resize has left its queue. It is sent as soon as a worker is free, or not at all in this pass.
func (s *Siblings) Sent(d *decision.Decision) {
	if d.Do != decision.Resize {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued[d.Pod.Controller]--
	s.inFlight[d.Pod.Controller]++
	if freesRoom(d) {
		s.shrinking[d.Pod.Node]++
	}
}

// Answered notes that the outcome of a resize is recorded, or that it is not sent in this pass.
func (s *Siblings) Answered(d *decision.Decision) {
	if d.Do != decision.Resize {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight[d.Pod.Controller]--
	if freesRoom(d) {
		s.shrinking[d.Pod.Node]--
	}
	s.progress.Broadcast()
}

// Slow notes that resizes wait for the rate limit.
func (s *Siblings) Slow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowed = true
	s.progress.Broadcast()
}

// AfterResizes waits for the answers to the resizes of a controller. A resize that has not left its queue counts, too, because the resizes
// of a controller are sent one after the other. But while resizes wait for the rate limit, only those that have left the queue count: the
// limit may not allow the others in this pass. Resizes never wait for evictions, so the wait ends with the resizes of the pass.
func (s *Siblings) AfterResizes(controller cluster.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.inFlight[controller] > 0 || s.queued[controller] > 0 && !s.slowed {
		s.progress.Wait()
	}
}

// freesRoom reports whether growing pods wait for a resize. They do not wait for the ends of startup boosts, which are carried out a few at a
// time: a growth among them could wait for one that follows it.
func freesRoom(d *decision.Decision) bool {
	return len(d.Unboost) == 0 && change.Shrinks(d.Pod, d.With)
}

// shrinkPatience is how long the growing pods of a node wait in a pass for the answers to the resizes that lower requests there. A webhook
// that hangs for one pod must not delay the others for long.
const shrinkPatience = 2 * time.Second

// AfterShrinks waits, before a resize that raises requests, until the resizes that only lower requests on its node are answered: the kubelet
// would defer it otherwise. They are in front of it in the queue if it needs their room.
func (s *Siblings) AfterShrinks(d *decision.Decision) {
	if d.Do != decision.Resize || len(d.Unboost) > 0 || !change.Grows(d.Pod, d.With) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	node := d.Pod.Node
	if s.shrinking[node] == 0 || s.impatient[node] {
		return
	}
	timer := time.AfterFunc(shrinkPatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.impatient[node] = true
		s.progress.Broadcast()
	})
	defer timer.Stop()
	for s.shrinking[node] > 0 && !s.impatient[node] {
		s.progress.Wait()
	}
}
