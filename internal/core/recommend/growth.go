// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/series"
	"podfit.dev/podfit/internal/core/usage"
)

// Growth is how memory grows, when it does so steadily.
type Growth struct {
	PerDay float64   // bytes
	Days   int       // over which it has
	Full   time.Time // when the bound asked about will be reached at this rate; zero when never within a year
}

// A leak grows, and goes on growing. What only grew once, or shrinks in between, is something else.
const (
	leakDays   = 4    // of history at least
	leakWindow = 10   // days looked at
	leakGrowth = 0.25 // relative growth over the window at least
	leakSteady = 0.85 // share of all pairs of times of which the later has more
)

// Leak reports whether memory looks like it leaks, up to a bound in bytes (0: none): the peaks of six hours grow, in
// nearly every pair of them the later is higher (Kendall's τ ≥ 0.7), and altogether by a quarter at least. The slope is
// the median of the slopes of all pairs (Theil and Sen), so that a restart or a spike does not bend it.
func Leak(p *series.Peaks, bound float64, now time.Time) (Growth, bool) {
	const block = 6
	hour := int(now.Unix() / 3600)
	var at, value []float64 // days ago (negative), bytes
	for from := hour - leakWindow*24; from < hour; from += block {
		if l := p.Max(from, from+block); l > 0 && from >= p.Since() {
			at = append(at, float64(from+block-hour)/24)
			value = append(value, l.Amount())
		}
	}
	n := len(at)
	if n < leakDays*24/block {
		return Growth{}, false
	}
	later := 0
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range at {
		for j := i + 1; j < n; j++ {
			if value[j] > value[i] {
				later++
			}
			slopes = append(slopes, (value[j]-value[i])/(at[j]-at[i]))
		}
	}
	slices.Sort(slopes)
	slope := slopes[len(slopes)/2]
	span := at[n-1] - at[0]
	first := slices.Min(value)
	if float64(later) < leakSteady*float64(len(slopes)) || slope*span < leakGrowth*first {
		return Growth{}, false
	}
	g := Growth{PerDay: slope, Days: int(math.Ceil(span))}
	if left := bound - value[n-1]; bound > 0 {
		if days := max(left, 0) / slope; days < 366 {
			g.Full = now.Add(time.Duration(days * 24 * float64(time.Hour)))
		}
	}
	return g, true
}

// LeakOf is Leak for a container whose profile remembers the peaks of memory; of others it cannot be told.
func LeakOf(s *usage.Series, bound float64, now time.Time) (Growth, bool) {
	m, ok := s.Extension().(interface{ memoryPeaks() *series.Peaks })
	if !ok {
		return Growth{}, false
	}
	return Leak(m.memoryPeaks(), bound, now)
}

func (m *Memo) memoryPeaks() *series.Peaks   { return &m.Memory }
func (m *Window) memoryPeaks() *series.Peaks { return &m.Memory }
func (m *Load) memoryPeaks() *series.Peaks   { return &m.memory }
