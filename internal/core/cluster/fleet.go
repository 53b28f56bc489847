// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// A Daemon is a DaemonSet, whose pods take room of each node that they run on.
type Daemon struct {
	Key
	Selector    NodeSelector
	Somewhere   bool // its node selector or required node affinity is not evaluated, so its nodes are unknown
	Tolerations Tolerations
	Requests    Resources // of one pod
}

// RunsOn reports whether the DaemonSet has a pod on nodes with these labels and taints. It is false if that is not known.
func (d *Daemon) RunsOn(n *Node) bool {
	return !d.Somewhere && n.Matches(d.Selector) && d.Tolerations.Tolerate(n.Taints)
}

// A NewNode is a kind of node that an autoscaler of the cluster can add. Its labels are not known, so it matches any node selector.
type NewNode struct {
	Size   Resources // largest allocatable amounts; an amount that is not set is not bounded
	Taints []Taint   // those that reserve it
}
