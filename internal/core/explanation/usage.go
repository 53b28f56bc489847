// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// measured returns the containers with usage, sorted.
func (in *Input) measured() []string {
	var out []string
	for i := range in.Usage {
		if name := in.Usage[i].Container; in.shows(name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// extremes returns the lowest and the highest usage of a container.
func (in *Input) extremes(container string, res cluster.Resource) (low, high usage.Sample) {
	found := false
	for _, s := range in.Usage {
		if s.Container != container || !s.Has.Has(res) {
			continue
		}
		if !found || value(s, res) < value(low, res) {
			low = s
		}
		if !found || value(s, res) > value(high, res) {
			high = s
		}
		found = true
	}
	return low, high
}

// value returns the usage of one resource, in cores or bytes.
func value(s usage.Sample, res cluster.Resource) float64 {
	if res == cluster.CPU {
		return s.CPU
	}
	return s.Memory
}
