// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"sync"

	"podfit.dev/podfit/internal/core/plan"
)

// A lane is a kind of actions that are carried out in order.
type lane struct {
	do    plan.Act
	boost bool // they end a startup boost
}

func laneOf(d *plan.Decision) lane { return lane{d.Do, len(d.Unboost) > 0} }

// Evictions, resizes and ends of startup boosts do not wait for each other, so that the rate limit of one does not stop the
// others.
var everyLane = []lane{{do: plan.Evict}, {do: plan.Resize}, {do: plan.Resize, boost: true}}

// lanes are the actions that wait for their turn. What is to be done instead of an action that was refused comes last, so
// that a group of which everything is refused does not keep others waiting.
type lanes struct {
	mu      sync.Mutex
	changed sync.Cond
	waiting map[lane][]plan.Decision
	open    int // actions that wait or are under way
}

func newLanes() *lanes {
	l := &lanes{waiting: map[lane][]plan.Decision{}}
	l.changed.L = &l.mu
	return l
}

// add appends actions to their lanes.
func (l *lanes) add(ds []plan.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ds {
		l.waiting[laneOf(&ds[i])] = append(l.waiting[laneOf(&ds[i])], ds[i])
	}
	l.open += len(ds)
	l.changed.Broadcast()
}

// next returns the next action of a lane, as soon as there is one, and false when no lane has or will get any.
func (l *lanes) next(of lane) (plan.Decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting[of]) == 0 && l.open > 0 {
		l.changed.Wait()
	}
	ds := l.waiting[of]
	if len(ds) == 0 {
		return plan.Decision{}, false
	}
	l.waiting[of] = ds[1:]
	return ds[0], true
}

// done says that an action of next is not under way any more, after add for what is to be done instead.
func (l *lanes) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open == 0 {
		l.changed.Broadcast()
	}
}
