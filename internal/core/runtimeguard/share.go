// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

// A Range is a range of CPU requests in millicores, both ends included.
type Range struct{ From, To int64 }

// bands are the ranges of CPU requests that a JVM may take for "no request was set", ascending. A test of the module test/admission derives
// them from the conversions of requests into CPU shares and weights.
var bands = [...]Range{
	{989, 1000},  // cgroup v1: 1000; cgroup v2 with the quadratic conversion: all
	{2538, 2562}, // cgroup v2 with the linear conversion
}

// Band returns the range of bands that contains a CPU request in millicores, and whether there is one.
func Band(millicores int64) (Range, bool) {
	for _, b := range bands {
		if millicores >= b.From && millicores <= b.To {
			return b, true
		}
	}
	return Range{}, false
}

// Processors returns the number of processors for a CPU request in millicores: whole cores, rounded up, at least 1.
func Processors(millicores int64) int64 {
	return max(millicores/1000+min(max(millicores%1000, 0), 1), 1)
}
