// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// LimitRange is what the LimitRange objects of one namespace demand together: the lowest maximum, the
// highest minimum and the last default of each type. The zero value demands nothing.
type LimitRange struct {
	Container Range
	Pod       Range

	// ContainerRatio and PodRatio are the lowest maxLimitRequestRatio of each type, in thousandths.
	ContainerRatio, PodRatio Resources

	// DefaultRequest is the request that a container without one is given.
	DefaultRequest Resources

	// Fractions says that some of the memory amounts are not whole bytes: minima and default requests have been rounded up,
	// maxima and default limits down.
	Fractions bool
}

// A Range bounds an amount. A bound that is not set does not bind.
type Range struct {
	Min     Resources
	Max     Resources
	Default Resources // the limit a container without one is given; containers only
}

// IsZero reports whether the namespace demands nothing.
func (l LimitRange) IsZero() bool { return l == LimitRange{} }

// A Node is where pods run.
type Node struct {
	Name        string
	Allocatable Resources
	Ready       bool
	Cordoned    bool
	Tainted     bool     // it is set apart for pods that tolerate something; not: it is in trouble for a while
	Taints      []Taint  // those that set it apart
	Labels      []string // "key=value", sorted
}

// Matches reports whether a node has all labels of a selector, each as "key=value".
func (n *Node) Matches(selector []string) bool {
	for _, label := range selector {
		if _, ok := slices.BinarySearch(n.Labels, label); !ok {
			return false
		}
	}
	return true
}
