// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import "math"

// A Conversion is how a node presents a CPU request to the processes of a container.
type Conversion uint8

// The conversions. Nodes differ, and podfit does not know which one a node has.
const (
	SharesV1  Conversion = iota // cgroup v1: CPU shares
	WeightOld                   // cgroup v2, linear: runc before 1.3.2, crun before 1.23
	WeightNew                   // cgroup v2, quadratic: runc from 1.3.2, crun from 1.23
)

// Limits and defaults of the kernel.
const (
	minShares     = 2
	maxShares     = 1 << 18
	maxWeight     = 10_000
	defaultShares = 1024
	defaultWeight = 100
)

// Shares returns the CPU shares that the kubelet sets for a CPU request in millicores (1 core is 1024 shares), from 2 to 262144.
func Shares(millicores int64) int64 {
	if millicores <= 0 {
		return minShares
	}
	return min(max(min(millicores, maxShares)*1024/1000, minShares), maxShares)
}

// Seen returns what a container with a CPU request in millicores sees: CPU shares with SharesV1, otherwise a CPU weight from 1 to 10000.
//
// The linear conversion maps 2…262144 shares to 1…10000 in a straight line. The quadratic one, of opencontainers/cgroups from 0.0.5 on, maps
// the logarithm, so that the default of one kernel interface is that of the other: 2 → 1, 1024 → 100, 262144 → 10000.
func (c Conversion) Seen(millicores int64) int64 {
	shares := Shares(millicores)
	switch {
	case c == SharesV1:
		return shares
	case c == WeightOld:
		return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares)
	case shares <= minShares:
		return 1
	case shares >= maxShares:
		return maxWeight
	}
	bits := math.Log2(float64(shares))
	return int64(math.Ceil(math.Pow(10, float64(bits*(bits+125))/612-7.0/34)))
}

// JVMProcessors returns the number of processors that a JVM takes from its CPU request if no CPU limit and no ActiveProcessorCount is set. It
// returns 0 if the JVM takes the request for the default, and uses all cores of the node. The number may exceed those of the node, which the
// JVM then uses.
//
// This is what OpenJDK does before 11.0.17, 17.0.5 and 18.0.2, and later ones with -XX:+UseContainerCpuShares. It inverts the linear
// conversion and rounds to whole cores. Other JVMs always use all cores of the node.
func (c Conversion) JVMProcessors(millicores int64) int64 {
	seen := c.Seen(millicores)
	switch {
	case c == SharesV1 && seen == defaultShares, c != SharesV1 && seen == defaultWeight:
		return 0
	case c == SharesV1:
		return (seen + defaultShares - 1) / defaultShares
	}
	shares := (maxShares-minShares)*seen - 1
	shares = shares/(maxWeight-1) + minShares
	return max((shares+defaultShares/2-1)/defaultShares, 1)
}

// A Range is a range of CPU requests in millicores, both ends included.
type Range struct{ From, To int64 }

// bands are the ranges in which JVMProcessors is 0 with some conversion. A test derives them from the conversions.
var bands = [...]Range{
	{989, 1000},  // SharesV1: 1000; WeightNew: all
	{2538, 2562}, // WeightOld
}

// Bands returns the ranges of CPU requests that a JVM may take for "no request was set", ascending.
func Bands() []Range { return bands[:] }

// Band returns the range that contains a CPU request in millicores, and whether there is one.
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
