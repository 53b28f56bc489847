// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// byRequest weights a CPU sample by the CPU request, in cores, at the time of the sample:
//
//	w = max(request, 0.1)
//
// as upstream did until February 2025. Samples at a small request soon have little weight compared to those at a larger one, so a
// container whose request was too small is sized by its usage after the request was raised. Memory peaks are not weighted. There is
// no model state.
type byRequest struct{ usage.Unstored }

const leastWeight = 0.1

// CPUWeight implements usage.Extension.
func (byRequest) CPUWeight(request float64) float64 { return max(request, leastWeight) }

// Observe implements usage.Extension.
func (byRequest) Observe(usage.Sample, cluster.Set) {}

// ObserveOOM implements usage.Extension.
func (byRequest) ObserveOOM(usage.OOM, int64) {}
