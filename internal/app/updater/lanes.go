// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"sync"

	"podfit.dev/podfit/internal/core/decision"
)

// A lane is a kind of actions that are carried out in order.
type lane struct {
	do    decision.Act
	boost bool // the actions end a startup boost
}

// laneOf returns the lane of an action. Deletions and surges share the lane and the rate limit of evictions.
func laneOf(d *decision.Decision) lane {
	if d.Do == decision.Delete || d.Do == decision.Surge {
		return lane{do: decision.Evict}
	}
	return lane{d.Do, len(d.Unboost) > 0}
}

// everyLane lists the lanes. They do not wait for each other, so that the rate limit of one does not delay another.
var everyLane = []lane{{do: decision.Evict}, {do: decision.Resize}, {do: decision.Resize, boost: true}}

// lanes are the queues of pending actions. An action that replaces a refused one goes to the end of its queue, so that a
// group whose changes are all refused does not delay other groups.
type lanes struct {
	mu      sync.Mutex
	changed sync.Cond
	pending map[lane][]decision.Decision
	open    int // actions that are pending or in progress
}

func newLanes() *lanes {
	l := &lanes{pending: map[lane][]decision.Decision{}}
	l.changed.L = &l.mu
	return l
}

// add appends actions to their lanes.
func (l *lanes) add(actions []decision.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range actions {
		key := laneOf(&actions[i])
		l.pending[key] = append(l.pending[key], actions[i])
	}
	l.open += len(actions)
	l.changed.Broadcast()
}

// next waits for the next action of a lane and returns it. It returns false when all actions of all lanes are done.
func (l *lanes) next(of lane) (decision.Decision, bool) {
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

// done marks one action of next as done. Actions that replace it must have been added before.
func (l *lanes) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.open == 0 {
		l.changed.Broadcast()
	}
}
