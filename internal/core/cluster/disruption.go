// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"
)

// A DisruptionBudget is a PodDisruptionBudget: the part of its spec and status that decides about the eviction of a pod that is not
// ready.
type DisruptionBudget struct {
	Name        string
	Selector    Selector
	Healthy     int32 // status.currentHealthy
	Desired     int32 // status.desiredHealthy
	AlwaysAllow bool  // spec.unhealthyPodEvictionPolicy AlwaysAllow: pods that are not ready may be evicted
	Current     bool  // the status belongs to the current spec
}

// A Selector is a label selector. All of its requirements must hold. A pod is selected by an empty list, and never if None is set.
type Selector struct {
	Requirements []Requirement
	None         bool // selects no pod: the object has no selector, or an invalid one
}

// A Requirement is a condition on one label.
type Requirement struct {
	Key    string
	Op     SelectorOp
	Values []string // for In and NotIn
}

// A SelectorOp is an operator of a label selector or of a node affinity.
type SelectorOp uint8

// The operators. Above and Below are those of node affinities only.
const (
	In SelectorOp = iota
	NotIn
	Exists
	DoesNotExist
	Above // the value is an integer greater than NodeRequirement.Bound (Gt)
	Below // the value is an integer less than NodeRequirement.Bound (Lt)
)

// holds reports whether an operator other than Above and Below holds for the value of a label, if that exists.
func (op SelectorOp) holds(value string, exists bool, values []string) bool {
	switch op {
	case In:
		return exists && slices.Contains(values, value)
	case NotIn:
		return !exists || !slices.Contains(values, value)
	case Exists:
		return exists
	case DoesNotExist:
		return !exists
	case Above, Below:
	}
	return false
}

// Matches reports whether the selector selects a pod with the given labels, each as "key=value".
func (s Selector) Matches(labels []string) bool {
	if s.None {
		return false
	}
	return !slices.ContainsFunc(s.Requirements, func(r Requirement) bool { return !r.holds(labels) })
}

func (r Requirement) holds(labels []string) bool {
	value, exists := "", false
	for _, label := range labels {
		if key, v, _ := strings.Cut(label, "="); key == r.Key {
			value, exists = v, true
		}
	}
	return r.Op.holds(value, exists, r.Values)
}
