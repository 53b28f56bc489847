// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

// FleetOptions are the settings of users about the nodes of the cluster.
type FleetOptions struct {
	Scale bool // scale pods down that fit on no node

	// Allocatable amounts of the largest node that can be added, in millicores and bytes. One that is 0 is not bounded; if both are 0,
	// such nodes are not known.
	MaxCPU, MaxMemory int64
}

// Nodes has the nodes of the cluster. A World is one.
type Nodes interface {
	Nodes() []cluster.Node
	Daemons() []cluster.Daemon
	Selectors() []cluster.NodeSelector  // of pods
	Tolerations() []cluster.Tolerations // of pods
	NewNodes() (all []cluster.NewNode, known bool)
}

// Fleet returns the sizes of the nodes of the cluster and of those that can be added. While the latter are unknown, pods are not scaled.
func Fleet(w Nodes, o FleetOptions) *fleet.Fleet {
	added, known := w.NewNodes()
	c := fleet.Config{
		Nodes: w.Nodes(), Daemons: w.Daemons(), Selectors: w.Selectors(), Tolerations: w.Tolerations(), Unscaled: !o.Scale || !known,
		New: slices.Clone(added),
	}
	var largest cluster.Resources
	if o.MaxCPU > 0 {
		largest = largest.Set(cluster.CPU, o.MaxCPU)
	}
	if o.MaxMemory > 0 {
		largest = largest.Set(cluster.Memory, o.MaxMemory)
	}
	if !largest.Has.Empty() {
		c.New = append(c.New, cluster.NewNode{Size: largest})
	}
	return fleet.New(c)
}
