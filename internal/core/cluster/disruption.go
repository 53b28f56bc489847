// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strconv"
	"strings"
)

// A DisruptionBudget is a PodDisruptionBudget: the part of its spec and status that decides about the eviction of a pod that is not
// ready.
type DisruptionBudget struct {
	Name        string
	Selector    Selector
	Healthy     int32 // status.currentHealthy; not more than Desired if status.disruptionsAllowed is 0
	Desired     int32 // status.desiredHealthy
	AlwaysAllow bool  // spec.unhealthyPodEvictionPolicy AlwaysAllow: pods that are not ready may be evicted
	Current     bool  // the status belongs to the current spec
}

// Selecting returns the disruption budgets that select a pod with the given labels, each as "key=value", sorted.
func Selecting(all []DisruptionBudget, labels []string) []*DisruptionBudget {
	return Where(all, func(b *DisruptionBudget) bool { return b.Selector.Matches(labels) })
}

// A Selector is a label selector. All of its requirements must hold. A pod is selected by an empty list, and never if None is set.
type Selector struct {
	Requirements []Requirement
	None         bool // selects no pod: the object has no selector, or an invalid one
}

// Matches reports whether the selector selects a pod with the given labels, each as "key=value", sorted.
func (s Selector) Matches(labels []string) bool {
	return !s.None && !slices.ContainsFunc(s.Requirements, func(r Requirement) bool { return !r.holds("", labels) })
}

// A Requirement is a condition on one label of a pod or a node, or on the name of a node.
type Requirement struct {
	Prefix string // the key of the label and "="; "" for the name of the node
	Op     SelectorOp
	Values []string // for In and NotIn
	Bound  int64    // for Above and Below
}

// A SelectorOp is an operator of a label selector or of a node affinity.
type SelectorOp uint8

// The operators. Above and Below are those of node affinities only.
const (
	In SelectorOp = iota
	NotIn
	Exists
	DoesNotExist
	Above // the value is an integer greater than Requirement.Bound (Gt)
	Below // the value is an integer less than Requirement.Bound (Lt)
)

// holds reports whether an object with a name and labels, each as "key=value", sorted, meets the requirement.
func (r *Requirement) holds(name string, labels []string) bool {
	value, exists := name, true
	if r.Prefix != "" {
		value, exists = valueOf(labels, r.Prefix)
	}
	switch r.Op {
	case In:
		return exists && slices.Contains(r.Values, value)
	case NotIn:
		return !exists || !slices.Contains(r.Values, value)
	case Exists:
		return exists
	case DoesNotExist:
		return !exists
	case Above, Below:
	}
	v, err := strconv.ParseInt(value, 10, 64)
	return exists && err == nil && (r.Op == Above && v > r.Bound || r.Op == Below && v < r.Bound)
}

// valueOf returns the value of the label that begins with a prefix, which ends with "=".
func valueOf(labels []string, prefix string) (value string, exists bool) {
	i, _ := slices.BinarySearch(labels, prefix)
	if i == len(labels) {
		return "", false
	}
	return strings.CutPrefix(labels[i], prefix)
}
