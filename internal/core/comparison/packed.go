// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// Packed recommends requests for nodes that are full: a part of each node's memory stays free, and any one container on it may use that beyond its
// request. It is for containers whose memory limit does not follow the request.
//
//	memory = max(q + λ (max₇ − q), max₁₄ − reserve) / (1 − R)     reserve = R × Memory
//	CPU    = the percentile
//
// q and the percentile are of the hourly peaks of 7 days, max₇ and max₁₄ the highest memory usage of 7 and 14 days.
type Packed struct {
	Memory float64 // of a node, allocatable, in bytes
}

// The parameters of Packed. docs/backtest.md says how they were chosen.
const (
	packedMemory  = 0.75
	packedCPU     = 0.8
	packedPeak    = 0.2  // λ
	packedReserve = 0.15 // R
	packedLong    = 14 * 24
)

// Extend creates the model state of a container (usage.Store.Extend).
func (Packed) Extend() usage.Extension {
	return &unkilled{window{cpu: hourly.NewPeaks(windowHours), memory: hourly.NewPeaks(packedLong)}}
}

// unkilled ignores OOM kills. A replay takes usage above the request for a kill, which it is not if the limit is apart from the request.
type unkilled struct{ window }

// ObserveOOM implements usage.Extension.
func (*unkilled) ObserveOOM(usage.OOM, int64) {}

// Amount returns the request, 0 if there are no samples.
func (p Packed) Amount(state usage.Extension, r cluster.Resource, _ time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*unkilled)
	if !ok || m.Peaks(r).Empty() {
		return 0
	}
	peaks := m.Peaks(r)
	end := peaks.Newest() + 1
	var room [windowHours]hourly.Level
	hours := peaks.AppendHours(room[:0], end-windowHours, end)
	slices.Sort(hours)
	share := cluster.Pick(r, packedCPU, packedMemory)
	v := to.Value(derivation.StepPercentile, hours[int(share*float64(len(hours)-1))].Amount())
	if to != nil {
		e := to.Evidence()
		e.Share, e.Samples, e.From = share, len(hours), time.Unix(int64(max(end-windowHours, peaks.Since()))*3600, 0).UTC()
	}
	if r == cluster.CPU {
		return to.Ceil(to.ToMillicores(v, 1000))
	}
	usual := v
	v = to.Add(derivation.StepSpread, v, packedPeak*(hours[len(hours)-1].Amount()-v))
	if to != nil {
		to.Evidence().Share, to.Evidence().Amount = share, usual
	}
	v = to.Raise(derivation.StepWindowMax, v, peaks.Max(end-packedLong, end).Amount()-packedReserve*p.Memory)
	return to.Ceil(to.Multiply(derivation.StepReserve, v, 1/(1-packedReserve)))
}
