// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"podfit.dev/podfit/internal/core/integer"
)

// A NodeBase is the CPU of a node that a share is a part of.
type NodeBase uint8

// The bases.
const (
	OfAllocatable NodeBase = iota // what pods can request
	OfCapacity                    // of the machine, with what is reserved for the system
)

// String returns the name in texts: allocatable CPU or CPU capacity.
func (b NodeBase) String() string {
	if b == OfCapacity {
		return "CPU capacity"
	}
	return "allocatable CPU"
}

// A NodeShare limits the CPU of a pod to a share of a node. The zero value is no limit.
type NodeShare struct {
	Millicores int64    // of the node; 0: not known, so there is no limit
	Share      float64  // 0: no limit
	Base       NodeBase // what Millicores is
	Floor      int64    // millicores that all containers of the pod together keep, divided among them
}

// Most returns the most CPU of a pod in millicores, at least 1, or 0 if there is no limit.
func (s NodeShare) Most() int64 {
	if s.Millicores <= 0 || !(s.Share > 0) {
		return 0
	}
	return max(int64(float64(s.Millicores)*min(s.Share, 1)), 1)
}

// Replicas returns how many replicas are needed so that no pod needs more than the share: ⌈replicas × wanted ÷ Most⌉, if the load is divided
// evenly. wanted is what each of the present replicas needs, in millicores. Without a limit it returns replicas.
func (s NodeShare) Replicas(replicas, wanted int64) int64 {
	most := s.Most()
	if most == 0 {
		return replicas
	}
	needed, _ := integer.ScaledUp(replicas, wanted, most)
	return needed
}

// String describes the share: "25 % of the allocatable CPU (4) of the smallest node".
func (s NodeShare) String() string {
	return fmt.Sprintf("%.4g %% of the %s (%s) of the smallest node", 100*s.Share, s.Base, Format(CPU, s.Millicores))
}
