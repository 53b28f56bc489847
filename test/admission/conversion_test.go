// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/runtimeguard"
)

// A conversion is how a node presents a CPU request to the processes of a container.
type conversion uint8

// The conversions. Nodes differ, and podfit does not know which one a node has.
const (
	sharesV1  conversion = iota // cgroup v1: CPU shares
	weightOld                   // cgroup v2, linear: runc before 1.3.2, crun before 1.23
	weightNew                   // cgroup v2, quadratic: runc from 1.3.2, crun from 1.23
)

// Limits and defaults of the kernel.
const (
	minShares     = 2
	maxShares     = 1 << 18
	maxWeight     = 10_000
	defaultShares = 1024
	defaultWeight = 100
)

// sharesOf returns the CPU shares that the kubelet sets for a CPU request in millicores (1 core is 1024 shares), from 2 to 262144.
func sharesOf(millicores int64) int64 {
	if millicores <= 0 {
		return minShares
	}
	return min(max(min(millicores, maxShares)*1024/1000, minShares), maxShares)
}

// seen returns what a container with a CPU request in millicores sees: CPU shares with sharesV1, otherwise a CPU weight from 1 to 10000.
//
// The linear conversion maps 2…262144 shares to 1…10000 in a straight line. The quadratic one, of opencontainers/cgroups from 0.0.5 on, maps
// the logarithm, so that the default of one kernel interface is that of the other: 2 → 1, 1024 → 100, 262144 → 10000.
func (c conversion) seen(millicores int64) int64 {
	shares := sharesOf(millicores)
	switch {
	case c == sharesV1:
		return shares
	case c == weightOld:
		return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares)
	case shares <= minShares:
		return 1
	case shares >= maxShares:
		return maxWeight
	}
	bits := math.Log2(float64(shares))
	return int64(math.Ceil(math.Pow(10, float64(bits*(bits+125))/612-7.0/34)))
}

// jvmProcessors returns the number of processors that a JVM takes from its CPU request if no CPU limit and no ActiveProcessorCount is set. It
// returns 0 if the JVM takes the request for the default, and uses all cores of the node. The number may exceed those of the node, which the
// JVM then uses.
//
// This is what OpenJDK does before 11.0.17, 17.0.5 and 18.0.2, and later ones with -XX:+UseContainerCpuShares. It inverts the linear
// conversion and rounds to whole cores. Other JVMs always use all cores of the node.
func (c conversion) jvmProcessors(millicores int64) int64 {
	seen := c.seen(millicores)
	switch {
	case c == sharesV1 && seen == defaultShares, c != sharesV1 && seen == defaultWeight:
		return 0
	case c == sharesV1:
		return (seen + defaultShares - 1) / defaultShares
	}
	shares := (maxShares-minShares)*seen - 1
	shares = shares/(maxWeight-1) + minShares
	return max((shares+defaultShares/2-1)/defaultShares, 1)
}

// The ranges in which a JVM reads "all cores", by enumeration of the conversions.
func TestBands_everyMillicore_areThoseThatReadAsAllCores(t *testing.T) {
	for _, c := range []struct {
		name string
		by   conversion
		want []runtimeguard.Range
	}{
		{"cgroup v1", sharesV1, []runtimeguard.Range{{From: 1000, To: 1000}}},
		{"cgroup v2, linear", weightOld, []runtimeguard.Range{{From: 2538, To: 2562}}},
		{"cgroup v2, quadratic", weightNew, []runtimeguard.Range{{From: 989, To: 1000}}},
	} {
		var got []runtimeguard.Range
		for m := int64(1); m <= 64_000; m++ {
			if c.by.jvmProcessors(m) != 0 {
				continue
			}
			if n := len(got); n > 0 && got[n-1].To == m-1 {
				got[n-1].To = m
			} else {
				got = append(got, runtimeguard.Range{From: m, To: m})
			}
			if _, in := runtimeguard.Band(m); !in {
				t.Errorf("%s: %dm reads as all cores, but is in no band", c.name, m)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v read as all cores, want %v", c.name, got, c.want)
		}
	}
}

func TestJVMProcessors_request_isWhatOpenJDKComputes(t *testing.T) {
	for _, c := range []struct {
		by         conversion
		millicores int64
		want       int64
	}{
		{sharesV1, 500, 1}, {sharesV1, 998, 1}, {sharesV1, 1000, 0}, {sharesV1, 1001, 2}, {sharesV1, 2000, 2}, {sharesV1, 2001, 3},
		{weightOld, 500, 1}, {weightOld, 1000, 1}, {weightOld, 2000, 2}, {weightOld, 2550, 0}, {weightOld, 4000, 4},
		{weightNew, 500, 2}, {weightNew, 1001, 3}, {weightNew, 2000, 4}, {weightNew, 4000, 8},
	} {
		if got := c.by.jvmProcessors(c.millicores); got != c.want {
			t.Errorf("conversion %d: jvmProcessors(%d) = %d, want %d", c.by, c.millicores, got, c.want)
		}
	}
}

func TestSeen_anyRequest_risesAndIsWithinTheBoundsOfTheKernel(t *testing.T) {
	for _, by := range []conversion{sharesV1, weightOld, weightNew} {
		before := int64(0)
		for _, m := range []int64{math.MinInt64, -1, 0, 1, 2, 3, 10, 988, 989, 1000, 1001, 64_000, 255_999, 256_000, 256_001, math.MaxInt64} {
			got := by.seen(m)
			if got < before || got < 1 || got > maxShares || by != sharesV1 && got > maxWeight {
				t.Errorf("conversion %d: seen(%d) = %d after %d", by, m, got, before)
			}
			before = got
		}
	}
}
