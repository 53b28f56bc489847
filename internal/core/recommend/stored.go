// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// The stored model state of each algorithm has its own form and contains the time of its newest sample (usage.Extension). State in
// another form is not read, and neither is state from the future, because new samples would have no effect on it.

// Form implements usage.Extension.
func (m *Memo) Form() string { return "adaptive/1" }

// Form implements usage.Extension.
func (m *Busy) Form() string { return "busy-hours/2" }

// Limits of stored values. They are above any real value: more bytes than a machine has, and a time in 36,000 years.
const (
	maxStored      = 1e15
	maxStoredTime  = 1 << 40
	maxStoredInt32 = math.MaxInt32 / 2
)

// ahead is how far planned times may be in the future, in seconds.
const ahead = 60 * 24 * 3600

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func latestPeak(ps ...*hourly.Peaks) int64 {
	latest := int64(0)
	for _, p := range ps {
		if !p.Empty() {
			latest = max(latest, int64(p.Newest())*3600)
		}
	}
	return latest
}

// Latest implements usage.Extension.
func (m *Memo) Latest() time.Time {
	latest := max(latestPeak(&m.CPU, &m.Memory), int64(m.cpuChoice.period)*3600, int64(m.memoryChoice.period)*daySeconds, m.leak.Latest(), m.regime.latest())
	for _, h := range [...]*held{&m.cpu, &m.memory} {
		latest = max(latest, h.decided, h.changed, h.planned, h.day*daySeconds, h.banned-ahead, h.bumped-ahead)
	}
	return unix(latest)
}

// Latest implements usage.Extension.
func (m *Busy) Latest() time.Time {
	return unix(max(m.Memo.Latest().Unix(), int64(m.day)*daySeconds, int64(m.cpu.Newest())*3600, m.request().bumped))
}

func (g *regime) latest() int64 { return max(int64(g.since)*3600, int64(g.until)*3600-ahead) }

// CPUWeight implements usage.Extension.
func (m *Memo) CPUWeight(float64) float64 { return usage.SampleWeight }

// Since implements usage.Extension.
func (m *Memo) Since() time.Time { return earliestPeak(&m.CPU, &m.Memory) }

func earliestPeak(ps ...*hourly.Peaks) (at time.Time) {
	for _, p := range ps {
		if !p.Empty() {
			at = cluster.Earliest(at, unix(int64(p.Since())*3600))
		}
	}
	return at
}
