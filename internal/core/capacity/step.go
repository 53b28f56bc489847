// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"maps"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Step is a lasting change of the level from one day to the next: a workload that arrives, leaves, or is changed by hand.
type Step struct {
	Day    Day     // the first day with the new level
	Amount float64 // in millicores or bytes; negative if the level falls
}

// The properties of a step.
const (
	stepScore  = 4.5  // a step exceeds this many standard errors of the difference of the two levels
	stepShare  = 0.02 // and this share of the usual level
	stepWindow = 7    // days on each side that are compared
	mostSteps  = 12   // the most steps that are taken out of a series
)

// findSteps returns the steps of a series. Changes that repeat each week are not steps, and an outlier of one day is not one, unless it is
// the last day and a rise: whether it lasts is not known, and a forecast that ignores it would be too late.
func findSteps(points []Point) []Step {
	if len(points) < leastFit {
		return nil
	}
	even := slices.Clone(points)
	usual := median(values(even))
	found := map[Day]float64{}
	for range 2 * mostSteps {
		at, amount := largestStep(even, usual)
		day := even[at].Day
		_, known := found[day]
		if at == 0 || !known && len(found) == mostSteps {
			break
		}
		found[day] += amount
		for i := range at {
			even[i].Requested += amount
		}
	}
	maps.DeleteFunc(found, func(_ Day, amount float64) bool { return math.Abs(amount) < stepShare*usual })
	return stepsOf(found)
}

func stepsOf(amounts map[Day]float64) []Step {
	out := make([]Step, 0, len(amounts))
	for day, amount := range amounts {
		out = append(out, Step{day, amount})
	}
	slices.SortFunc(out, func(a, b Step) int { return int(a.Day - b.Day) })
	return out
}

// largestStep returns the index of the first point after the clearest step, and the amount of the step; index 0 if there is none.
func largestStep(points []Point, usual float64) (at int, amount float64) {
	flat := flattened(points)
	var differences []float64
	for i := 1; i < len(flat); i++ {
		differences = append(differences, flat[i]-flat[i-1])
	}
	noise := spread(differences) / math.Sqrt2
	best := 0.0
	for i := 1; i < len(flat); i++ {
		before := flat[max(0, i-stepWindow):i]
		after := flat[i:min(len(flat), i+stepWindow)]
		d := median(slices.Clone(after)) - median(slices.Clone(before))
		falls := d < 0 && len(after) < 2 // the value of the last day may be incomplete
		if math.Abs(d) < stepShare*usual || falls {
			continue
		}
		const medianError = 1.2533 // standard error of a median, relative to that of a mean
		e := medianError * noise * math.Sqrt(1/float64(len(before))+1/float64(len(after)))
		// Of several days with the same difference of medians, the step is where the value itself changes most.
		score := math.Abs(d) - float64(stepScore*e)
		if score <= 0 {
			continue
		}
		if jump := flat[i] - flat[i-1]; jump/d > 0 {
			score += math.Abs(jump)
		}
		if score > best {
			best, at, amount = score, i, d
		}
	}
	return at, amount
}

// flattened returns the values without the trend and the season, both estimated so that steps hardly change them: by the differences from
// week to week, and by the deviations from the median of the seven days around each.
func flattened(points []Point) []float64 {
	flat := values(points)
	var weekly []float64
	for i := range points {
		for k := i + 1; k < len(points) && points[k].Day <= points[i].Day+7; k++ {
			if points[k].Day == points[i].Day+7 {
				weekly = append(weekly, (flat[k]-flat[i])/7)
			}
		}
	}
	slope := median(weekly)
	for i := range points {
		flat[i] -= float64(slope * float64(points[i].Day-points[0].Day))
	}
	var deviations [7][]float64
	for i := range points {
		around := slices.Clone(flat[max(0, i-3):min(len(flat), i+4)])
		w := points[i].Day.weekday()
		deviations[w] = append(deviations[w], flat[i]-median(around))
	}
	for i := range points {
		if d := deviations[points[i].Day.weekday()]; len(d) >= 3 {
			flat[i] -= median(slices.Clone(d))
		}
	}
	return flat
}

func values(points []Point) []float64 {
	return cluster.Each(points, func(p *Point) float64 { return p.Requested })
}

// merged returns steps by day, sorted. Where known and found steps are on adjacent days, the known one counts.
func merged(known, found []Step, first, last Day) []Step {
	sums := map[Day]float64{}
	for _, s := range known {
		if s.Day > first && s.Day <= last && !math.IsNaN(s.Amount) && !math.IsInf(s.Amount, 0) {
			sums[s.Day] += s.Amount
		}
	}
	for _, s := range found {
		near := false
		for d := s.Day - 1; d <= s.Day+1; d++ {
			_, ok := sums[d]
			near = near || ok
		}
		if !near {
			sums[s.Day] = s.Amount
		}
	}
	return stepsOf(sums)
}

// level returns the points as if all steps had happened before the first one.
func level(points []Point, steps []Step) []Point {
	out := slices.Clone(points)
	for i := range out {
		for _, s := range steps {
			if out[i].Day < s.Day {
				out[i].Requested += s.Amount
			}
		}
	}
	return out
}
