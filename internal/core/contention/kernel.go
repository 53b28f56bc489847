// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"slices"
	"strconv"
	"strings"
)

// A kernelFix is the first version of a series of Linux kernels that has the fix for throttling without need: slices of the quota that
// expired on one CPU were lost ("sched/fair: Fix low cpu usage with high throttling by removing expiration of cpu-local slices", Linux 5.4).
type kernelFix struct {
	series string // beginning of the version; the rest is compared with fixed
	vendor string // part of the version that names the distribution; "" for stable kernels of kernel.org
	fixed  []int
}

// The distributions number their kernels by builds of a fixed version, so the build decides.
var kernelFixes = []kernelFix{
	{"3.10.0-", "el7", []int{1062, 8, 1}},
	{"4.18.0-", "el8", []int{147, 2, 1}},
	{"4.15.0-", "", []int{67}}, // Ubuntu
	{"5.3.0-", "", []int{24}},  // Ubuntu
	{"4.14.", "", []int{154}},
	{"4.19.", "", []int{84}},
	{"5.3.", "", []int{9}},
}

// hasThrottlingDefect reports whether a kernel is known to lack the fix: it is older than 5.4 and no version that has a backport. It is
// false if the version is not known.
func hasThrottlingDefect(version string) bool {
	numbers := leading(version)
	if len(numbers) < 2 || slices.Compare(numbers[:2], []int{5, 4}) >= 0 {
		return false
	}
	for _, f := range kernelFixes {
		if rest, ok := strings.CutPrefix(version, f.series); ok && strings.Contains(rest, f.vendor) {
			return slices.Compare(leading(rest), f.fixed) < 0
		}
	}
	return true
}

// leading returns the numbers at the beginning of a version, separated by dots, at most four.
func leading(version string) []int {
	var out []int
	for len(out) < 4 {
		end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(version)
		}
		n, err := strconv.Atoi(version[:end])
		if err != nil {
			break
		}
		out = append(out, n)
		if end == len(version) || version[end] != '.' {
			break
		}
		version = version[end+1:]
	}
	return out
}
