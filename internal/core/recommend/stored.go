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

// maxStoredInt32 is above any stored number of hours, days or samples.
const maxStoredInt32 = math.MaxInt32 / 2

// ahead is how far planned times may be in the future, in seconds.
const ahead = 60 * 24 * 3600

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// Latest implements usage.Extension.
func (m *Memo) Latest() time.Time {
	latest := max(int64(m.cpuChoice.period)*3600, int64(m.memoryChoice.period)*daySeconds, m.leak.Latest(), int64(m.regime.since)*3600, int64(m.regime.until)*3600-ahead)
	latest = max(latest, int64(m.CPU.Newest())*3600, int64(m.Memory.Newest())*3600)
	for _, h := range [...]*held{&m.cpu, &m.memory} {
		latest = max(latest, h.decided, h.changed, h.planned, h.day*daySeconds, h.banned-ahead, h.bumped-ahead)
	}
	return unix(latest)
}

// Latest implements usage.Extension.
func (m *Busy) Latest() time.Time {
	return unix(max(m.Memo.Latest().Unix(), int64(m.day)*daySeconds, int64(m.cpu.Newest())*3600, m.request().bumped))
}

// CPUWeight implements usage.Extension.
func (m *Memo) CPUWeight(float64) float64 { return usage.SampleWeight }

// Since implements usage.Extension.
func (m *Memo) Since() (at time.Time) {
	for _, p := range [...]*hourly.Peaks{&m.CPU, &m.Memory} {
		if !p.Empty() {
			at = cluster.Earliest(at, unix(int64(p.Since())*3600))
		}
	}
	return at
}
