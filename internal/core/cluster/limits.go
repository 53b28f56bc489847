// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "cmp"

// LimitRange is the combination of the LimitRange objects of one namespace: the lowest maximum, the highest minimum and the
// last default of each type. The zero value has no bounds.
type LimitRange struct {
	Container Range
	Pod       Range

	// ContainerRatio and PodRatio are the lowest maxLimitRequestRatio of each type, in thousandths.
	ContainerRatio, PodRatio Resources

	// DefaultRequest is the request that the API server sets on a container without one.
	DefaultRequest Resources

	// Fractions is true if some memory amounts are not whole bytes. Minima and default requests are rounded up, maxima and
	// default limits are rounded down.
	Fractions bool
}

// A Range bounds an amount. A bound that is not set has no effect.
type Range struct {
	Min     Resources
	Max     Resources
	Default Resources // the limit that the API server sets on a container without one; containers only
}

// A Node is a node of the cluster.
type Node struct {
	Name        string
	Allocatable Resources
	Capacity    Resources // of the machine: the allocatable amounts and what is reserved for the system
	MaxPods     int       // allocatable pods; 0 if not known
	Ready       bool
	Cordoned    bool
	Kept        bool     // an annotation forbids the cluster autoscaler to remove it
	LowMemory   bool     // condition MemoryPressure
	Tainted     bool     // it has a taint that reserves it for some pods; temporary taints for node problems do not count
	Taints      []Taint  // those that reserve it
	Labels      []string // "key=value", sorted
	Kubelet     string   // address and port of its kubelet; "" if it is not known
	Group       string   // name of its NodeGroup, if Karpenter or the Cluster API has added it; "" if it is not known
	Kernel      string   // version of the kernel, such as 6.8.0-45-generic; "" if it is not known
}

// TakesPods reports whether new pods may run on the node. Only such nodes count as capacity.
func (n *Node) TakesPods() bool { return n.Ready && !n.Cordoned }

// A LimitRule is what podfit does with a limit (annotations podfit.dev/cpu-limits and podfit.dev/memory-limits, or a SizingProfile). With the zero
// value it keeps its ratio to the request, as in upstream.
type LimitRule struct {
	Remove  bool   // CPU: new pods have none
	Keep    bool   // memory: it is not changed
	Peaks   bool   // memory: it is Advice.MemoryLimit
	Set     bool   // the autoscaler has the annotation, so its profile does not apply
	Problem string // the error in the annotation or the profile, "" if there is none
}

// Under returns the rule of an autoscaler whose profile has a rule. The annotation overrides the profile; an invalid one has no effect.
func (r LimitRule) Under(profile LimitRule) LimitRule {
	if r.Set {
		return r
	}
	profile.Problem = cmp.Or(r.Problem, profile.Problem)
	return profile
}
