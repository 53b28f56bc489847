// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"encoding/json"
	"fmt"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// Allowed is which steps may be taken to make room for a pod. Each value includes the ones before it.
type Allowed uint8

// The values of the flag --make-room.
const (
	Off    Allowed = iota // no steps: a resize waits until the node has room
	Shrink                // other pods on the node shrink in place to their targets
	Split                 // a pod grows by what fits now, and by the rest later
	Move                  // pods move to other nodes
)

var allowedNames = [...]string{"off", "shrink", "split", "move"}

// String returns the value of the flag.
func (a Allowed) String() string {
	if int(a) < len(allowedNames) {
		return allowedNames[a]
	}
	return fmt.Sprintf("Allowed(%d)", uint8(a))
}

// ParseAllowed returns the value with a name, and whether there is one.
func ParseAllowed(name string) (Allowed, bool) {
	i := slices.Index(allowedNames[:], name)
	return Allowed(max(i, 0)), i >= 0
}

// An Amount is an amount of CPU in millicores and of memory in bytes. Free room may be negative.
type Amount struct{ CPU, Memory int64 }

// MarshalJSON returns cores and bytes, as in all reports.
func (a Amount) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"cpu": cluster.CPU.InUnits(a.CPU), "memory": cluster.Memory.InUnits(a.Memory)})
}

// Of returns the amount of resources; resources that are not set are zero.
func Of(r cluster.Resources) Amount { return Amount{CPU: r.CPU, Memory: r.Memory} }

// String returns a readable form, such as "cpu=100m memory=256Mi".
func (a Amount) String() string { return cluster.Amounts(a.CPU, a.Memory).String() }

// Shortage returns the parts of an amount that are more than zero, such as "memory=72Mi".
func (a Amount) Shortage() string {
	var r cluster.Resources
	for _, res := range cluster.All {
		if v := cluster.Amounts(a.CPU, a.Memory).Amount(res); v > 0 {
			r = r.Set(res, v)
		}
	}
	return r.String()
}

// Add returns the sum of two amounts.
func (a Amount) Add(b Amount) Amount { return Amount{a.CPU + b.CPU, a.Memory + b.Memory} }

// Sub returns the difference of two amounts.
func (a Amount) Sub(b Amount) Amount { return Amount{a.CPU - b.CPU, a.Memory - b.Memory} }

// Holds reports whether an increase fits into free room. A decrease always fits, even on a node that has less than no room.
func (a Amount) Holds(increase Amount) bool {
	return (increase.CPU <= 0 || increase.CPU <= a.CPU) && (increase.Memory <= 0 || increase.Memory <= a.Memory)
}

// Lacking returns by how much an increase exceeds free room; zero where it fits.
func (a Amount) Lacking(increase Amount) Amount {
	return Amount{lack(a.CPU, increase.CPU), lack(a.Memory, increase.Memory)}
}

func lack(free, increase int64) int64 {
	if increase <= 0 {
		return 0
	}
	return max(0, increase-free)
}

func (a Amount) isZero() bool { return a == Amount{} }

// positive returns the amount with negative parts set to zero.
func (a Amount) positive() Amount { return Amount{max(a.CPU, 0), max(a.Memory, 0)} }

// A Request is a node whose pods need room.
type Request struct {
	Node string
	Free Amount // allocatable minus what the pods hold
	Pods []Pod  // the pods that need room, may shrink or may move; other pods need not be listed

	// Asked are pods that were asked to grow to Target, for which it is not known yet whether the kubelet had room. Free is without their
	// increases, also if these do not fit. Only Priority, Reserves, and the names and amounts are read.
	Asked []Pod

	// Others are nodes with free room for pods that move.
	Others []Spot

	// Leaving is true while a pod on the node terminates. Its room is not free yet, so no other pod moves meanwhile.
	Leaving bool
}

// A Spot is free room on another node.
type Spot struct {
	Node string
	Free Amount
}

// A Pod is a pod on the node.
type Pod struct {
	ID     string // unique; orders pods that are equal otherwise
	Name   string
	Holds  Amount // what it takes of the node now
	Target Amount // what it should take; read if it needs room or may shrink

	Needs     bool    // it should grow to Target
	Allowed   Allowed // what may be done for it; read if it needs room
	Divisible bool    // it may grow by a part of the increase
	Least     float64 // the smallest part of its size that is worth a resize by a part
	Asked     bool    // the kubelet knows Target and waits for room
	Priority  int32   // of its PriorityClass
	Since     int64   // since when it needs room; among equal priorities the first is served first
	Reserves  bool    // the room that it gets is kept from pods that are served later
	Urgent    bool    // it gets room before others of the same or a lower priority, because of an OOM kill
	Overdue   bool    // it gets free room before all others, because it has waited for a long time
	Visits    int     // how many sets of moves the search for its room may look at; 0: no pod moves for it now

	Shrinks bool // it may shrink in place to Target
	Planned bool // it shrinks to Target in any case
	Move    *Candidate
}

// A Candidate is what moving a pod means: the replacement of the pod, and what the eviction costs.
type Candidate struct {
	Size  Amount // the requests of the replacement
	Spots []int  // indices into Request.Others of the nodes that accept it

	Ready, Wanted int   // pods of its controller that are ready, and that there should be
	StartSeconds  int64 // how long it took to become ready
	DeletionCost  int32 // annotation controller.kubernetes.io/pod-deletion-cost
}
