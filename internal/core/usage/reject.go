// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "math"

// A Rejection is the reason why a sample, or one resource of it, was rejected.
type Rejection uint8

// The reasons. Rejections are counted, not logged individually.
const (
	UnknownPod       Rejection = iota // the pod is not tracked, for example because its owner is not known yet
	UnknownContainer                  // the pod has no such container, or it is not sized
	BadTime                           // no time, or one outside the years 1970 to 2200
	Ahead                             // taken later than now
	NotANumber                        // not a number, or infinite
	Negative
	TooLarge   // above the largest node (BoundBy), or the limits MaxCores and MaxBytes
	NoMemory   // 0 bytes of memory: the container was not measured
	Repeated   // taken at the same time as the one before
	OutOfOrder // taken before the one before
	OldOOM     // an OOM kill more than one interval ago
	rejections
)

var rejectionNames = [rejections]string{
	"unknown pod", "unknown container", "bad time", "ahead of time", "not a number", "negative", "too large",
	"no memory", "repeated", "out of order", "old OOM kill",
}

// String returns the name of the reason.
func (r Rejection) String() string { return rejectionNames[r] }

// Rejections returns all reasons.
func Rejections() []Rejection {
	rs := make([]Rejection, rejections)
	for i := range rs {
		rs[i] = Rejection(i)
	}
	return rs
}

type rejected [rejections]uint64

// add counts a rejection. It always returns false, for use in a return statement.
func (n *rejected) add(r Rejection) bool {
	n[r]++
	return false
}

// plausible reports whether a container can use an amount, and counts a rejection if not.
func (n *rejected) plausible(v, limit float64) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return n.add(NotANumber)
	case v < 0:
		return n.add(Negative)
	case v > limit:
		return n.add(TooLarge)
	}
	return true
}

// Rejected returns the number of rejections for a reason.
func (b *Store) Rejected(r Rejection) uint64 { return b.rejected[r] }
