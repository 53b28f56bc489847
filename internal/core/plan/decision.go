// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// Act is what is done to a pod.
type Act uint8

// The acts.
const (
	Leave Act = iota
	Resize
	Evict
)

// String returns the act as a verb.
func (a Act) String() string {
	switch a {
	case Resize:
		return "resize"
	case Evict:
		return "evict"
	}
	return "leave"
}

// A Decision is what happens to one pod, and why.
type Decision struct {
	Pod        *cluster.Pod
	Autoscaler *cluster.Autoscaler
	Do         Act
	With       []policy.Fitted // what the pod's containers should run with; nil when that was not asked

	// Reason says why this is done, or why the pod is left.
	Reason Reason

	// Wanted is why the pod should change, whether or not it does now; its Why is Fits when it should not.
	Wanted Reason

	// Fallback allows to evict the pod, should the API server refuse the resize. Only set on Resize.
	Fallback bool

	// Unboost names the containers whose startup boost is over: With ends the boost, and the annotation that keeps
	// the originals is to be removed (policy.BoostAnnotation). Only set on Resize.
	Unboost []string

	Priority Priority

	rank    int       // in the order in which the pods of the autoscaler are decided on
	slot    slot      // in the order of execution
	refused time.Time // when an action on the pod was refused last; zero when none was
	scope   *scope
	taken   bool // it is counted in the budget of its group
	health  health
}

// Priority orders pods that should change.
type Priority struct {
	Up   bool    // some container should grow
	Diff float64 // how much the pod's requests would change: relative, summed over the resources
}

// Before reports whether p goes before o: those that should grow first, then the larger change.
func (p Priority) Before(o Priority) bool {
	if p.Up != o.Up {
		return p.Up
	}
	return p.Diff > o.Diff
}
