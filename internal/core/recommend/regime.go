// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
)

// regime is the state of a step down of memory: usage has moved to a lower level permanently. History from before the step is not
// used for sizing, unless usage returns.
//
// A step is detected when the peak of each of the last newDays days lies below a share of the peak of each of the oldDays days
// before them, and the means of the two groups are stepGap standard deviations apart (of logarithms, the larger of the groups').
// If the days were exchangeable, a complete separation would happen by chance once in C(10,3) = 120 days. The condition on the gap excludes
// spiky workloads with a few quiet days. The old days contain every weekday, so a workload that is idle on some weekdays is not taken for
// a step either.
//
//	peaks of days:  900 920 880 910 900 890 930 | 290 310 300     step: 310 < 0.7 × 880, ln(904/300) = 1.1 ≥ 5 × 0.034
//
// The zero value is no step.
type regime struct {
	since int32   // the first hour of the lower level; 0: no step
	until int32   // no new step is detected before this hour
	old   float32 // bytes: the lowest peak of a day before the step
}

const (
	newDays   = 3
	oldDays   = 7
	stepShare = -0.36 * hourly.PerNat // 0.7 of the lowest of the old peaks, in levels
	stepGap   = 5                     // standard deviations

	// relapse is the share of the lowest old peak at which usage undoes the step.
	relapse = 0.7
	// stepHold is the number of hours after an undone step in which no other is detected.
	stepHold = 14 * 24
)

// observe detects a step.
func (g *regime) observe(peaks *hourly.Peaks, hour int) {
	if hour < int(g.until) || hour+1-peaks.Since() < 24*(newDays+oldDays) {
		return
	}
	first := hour + 1 - 24*newDays
	if int(g.since) > first-24*oldDays {
		return // the days before are not all of one level
	}
	var now, before [oldDays]float64 // peaks of days, the newest last
	top := 0.0
	least := math.Inf(1) // the highest of the new peaks, the lowest of the old ones
	for d := range newDays {
		now[d] = float64(peaks.Max(first+24*d, first+24*d+24))
		top = max(top, now[d])
	}
	for d := range oldDays {
		from := first - 24*(oldDays-d)
		before[d] = float64(peaks.Max(from, from+24))
		least = min(least, before[d])
	}
	newMean, newSpread := moments(now[:newDays])
	oldMean, oldSpread := moments(before[:])
	if slices.Min(now[:newDays]) == 0 || top > least+stepShare || oldMean-newMean < stepGap*max(newSpread, oldSpread) {
		return
	}
	g.since = int32(first)
	g.old = float32(hourly.Amount(least))
}

func moments(x []float64) (mean, spread float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		spread += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(spread)
}

// used undoes a step if usage returns to near the old level.
func (g *regime) used(v float64, hour int) {
	if g.since != 0 && v >= relapse*float64(g.old) {
		*g = regime{until: int32(hour + stepHold)}
	}
}

// start returns the first hour of history that is used for sizing.
func (g *regime) start(p *hourly.Peaks) int { return max(p.Since(), int(g.since)) }

func (g *regime) code(c *codec.Coder) {
	codec.Uvarint(c, "first hour after a step", &g.since, maxStoredInt32)
	codec.Uvarint(c, "hour from which a step is detected", &g.until, maxStoredInt32)
	c.Float32("level before a step", &g.old, 0, codec.MaxNumber)
}
