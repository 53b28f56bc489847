// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue is the order in which the actions of a pass are carried out: lanes that do not wait for each other, rate limits, and the
// resizes that other actions wait for.
//
// It carries out no action, and does not decide which there are.
package queue

import (
	"sync"

	"podfit.dev/podfit/internal/core/decision"
)

// A Lane is a kind of actions that are carried out in order.
type Lane struct {
	do    decision.Act
	Boost bool // the actions end a startup boost
}

// laneOf returns the lane of an action. Deletions and surges share the lane and the rate limit of evictions.
func laneOf(d *decision.Decision) Lane {
	if d.Do == decision.Delete || d.Do == decision.Surge {
		return Lane{do: decision.Evict}
	}
	return Lane{d.Do, len(d.Unboost) > 0}
}

// EveryLane lists the lanes. They do not wait for each other, so that the rate limit of one does not delay another.
var EveryLane = []Lane{{do: decision.Evict}, {do: decision.Resize}, {do: decision.Resize, Boost: true}}

// Lanes are the queues of pending actions. An action that replaces a refused one goes to the end of its queue, so that a
// group whose changes are all refused does not delay other groups.
type Lanes struct {
	mu      sync.Mutex
	changed sync.Cond
	pending map[Lane][]decision.Decision
	open    int // actions that are pending or in progress
}

// NewLanes returns empty queues.
func NewLanes() *Lanes {
	l := &Lanes{pending: map[Lane][]decision.Decision{}}
	l.changed.L = &l.mu
	return l
}

// Add appends actions to their lanes.
func (l *Lanes) Add(actions []decision.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range actions {
		key := laneOf(&actions[i])
		l.pending[key] = append(l.pending[key], actions[i])
	}
	l.open += len(actions)
	l.changed.Broadcast()
}

// Next waits for the next action of a lane and returns it. It returns false when all actions of all lanes are done.
func (l *Lanes) Next(of Lane) (decision.Decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending[of]) == 0 && l.open > 0 {
		l.changed.Wait()
	}
	queue := l.pending[of]
	if len(queue) == 0 {
		return decision.Decision{}, false
	}
	l.pending[of] = queue[1:]
	return queue[0], true
}

// Done marks one action of Next as done. Actions that replace it must have been added before.
func (l *Lanes) Done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.open == 0 {
		l.changed.Broadcast()
	}
}
