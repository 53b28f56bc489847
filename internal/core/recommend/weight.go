// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// byRequest makes a CPU sample weigh as many as the cores that the container requested when it was taken:
//
//	w = max(request, 0.1)
//
// as upstream did until February 2025. What was measured with a small request soon counts little beside what is measured
// with a larger one, so that a container that was starved, and then given more, is sized by what it used afterwards.
// Memory, whose peaks always weigh the same, is not concerned. It remembers nothing besides the histogram.
type byRequest struct{ unstored }

// leastWeight is what a sample weighs whose container requested less, or nothing.
const leastWeight = 0.1

// CPUWeight implements usage.Extension.
func (byRequest) CPUWeight(request float64) float64 { return max(request, leastWeight) }

// Observe implements usage.Extension.
func (byRequest) Observe(usage.Sample, cluster.Set) {}

// ObserveOOM implements usage.Extension.
func (byRequest) ObserveOOM(usage.OOM, int64) {}
