// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"time"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// The stored model state of each algorithm has its own form and contains the time of its newest sample (usage.Extension). State in
// another form is not read, and neither is state from the future, because new samples would have no effect on it.

// Form implements usage.Extension.
func (m *Memo) Form() string { return "adaptive/1" }

// Form implements usage.Extension.
func (m *Busy) Form() string { return "busy-hours/2" }

// Form implements usage.Extension.
func (m *Models) Form() string { return "autopilot/1" }

// Limits of stored values. They are above any real value: more bytes than a machine has, and a time in 36,000 years.
const (
	maxStored      = 1e15
	maxStoredTime  = 1 << 40
	maxStoredInt32 = math.MaxInt32 / 2
)

// state is the model state that an estimator stores.
type state interface {
	encode(e *codec.Encoder)
	decode(d *codec.Decoder)
}

func appendState(b []byte, s state) ([]byte, error) {
	e := codec.NewEncoder(b)
	s.encode(e)
	return e.Data(), nil
}

// readState decodes model state. When it fails, the state does not change.
func readState[T any, S interface {
	*T
	state
}](data []byte, s S) error {
	decoded := *s
	d := codec.NewDecoder(data)
	S(&decoded).decode(d)
	if err := d.Finish("model state"); err != nil {
		return fmt.Errorf("decode model state: %w", err)
	}
	*s = decoded
	return nil
}

// unstored has the methods of an Extension whose model state is not stored: that of a comparison profile, which ends with the
// backtest, or none at all.
type unstored struct{}

// CPUWeight implements usage.Extension.
func (unstored) CPUWeight(float64) float64 { return usage.SampleWeight }

// AppendBinary implements usage.Extension.
func (unstored) AppendBinary(b []byte) ([]byte, error) { return b, nil }

// UnmarshalBinary implements usage.Extension.
func (unstored) UnmarshalBinary(data []byte) error {
	return codec.NewDecoder(data).Finish("empty model state")
}

// Form implements usage.Extension.
func (unstored) Form() string { return "" }

// Since implements usage.Extension.
func (unstored) Since() time.Time { return time.Time{} }

// Latest implements usage.Extension.
func (unstored) Latest() time.Time { return time.Time{} }

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
	latest := max(latestPeak(&m.CPU, &m.Memory), int64(m.cpuChoice.period)*3600, int64(m.memoryChoice.period)*daySeconds, m.leak.latest(), m.regime.latest())
	for _, h := range [...]*held{&m.cpu, &m.memory} {
		latest = max(latest, h.decided, h.changed, h.planned, h.day*daySeconds, h.banned-ahead, h.bumped-ahead)
	}
	return unix(latest)
}

// Latest implements usage.Extension.
func (m *Busy) Latest() time.Time {
	return unix(max(m.Memo.Latest().Unix(), int64(m.day)*daySeconds, int64(m.cpu.Newest())*3600, m.request().bumped))
}

// Latest implements usage.Extension.
func (m *Models) Latest() time.Time {
	return unix(max(m.since*3600, m.cpu.hour*3600, m.memory.hour*3600, m.cpu.until-ahead, m.memory.until-ahead))
}

func (g *regime) latest() int64 { return max(int64(g.since)*3600, int64(g.until)*3600-ahead) }

func (l *leak) latest() int64 { return max(l.since, l.seen, l.last) }

// CPUWeight implements usage.Extension.
func (m *Memo) CPUWeight(float64) float64 { return usage.SampleWeight }

// CPUWeight implements usage.Extension.
func (m *Models) CPUWeight(float64) float64 { return usage.SampleWeight }

// Since implements usage.Extension.
func (m *Memo) Since() time.Time { return earliestPeak(&m.CPU, &m.Memory) }

// Since implements usage.Extension.
func (m *Models) Since() (at time.Time) {
	if m.since > 0 {
		at = unix(m.since * 3600)
	}
	return at
}

func earliestPeak(ps ...*hourly.Peaks) (at time.Time) {
	for _, p := range ps {
		if p.Empty() {
			continue
		}
		if first := unix(int64(p.Since()) * 3600); at.IsZero() || first.Before(at) {
			at = first
		}
	}
	return at
}
