// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "slices"

// A Summary is what came of one resource, over containers and days.
type Summary struct {
	Containers int
	Days       int // container-days measured

	MeanSlack      float64 // mean of the days' slack
	MedianSlack    float64
	AggregateSlack float64 // 1 − Σ p95 / Σ mean request: what a cluster sees, where large containers count more

	FreeDays   float64 // share of days without a sample above the request
	Above      float64 // samples above the request a day
	Events     float64 // runs of such samples a day; of memory: kills
	Shortfall  float64 // share of the usage that lay above the request
	Changes    float64 // of the request a day
	Footprint  float64 // Σ over containers of what all their pods request in the mean
	UsedMean   float64 // Σ over containers of what all their pods use in the mean
	Pods       float64 // Σ over containers of the mean number of pods
	WorstDays  int     // days above of the container with the most
	NeverAbove int     // containers without any day above
}

// Summarize adds up scores of one resource.
func Summarize(scores []Score) Summary {
	var s Summary
	var slacks []float64
	var sumP95, sumMean, sumSlack, over, used float64
	var above, events, changes, free int
	for i := range scores {
		sc := &scores[i]
		if len(sc.Days) == 0 {
			continue
		}
		s.Containers++
		s.Footprint += sc.Footprint
		s.Pods += sc.Pods
		bad, samples, mine := 0, 0, 0.0
		for _, d := range sc.Days {
			slack := d.Slack()
			slacks = append(slacks, slack)
			sumSlack += slack
			sumP95 += d.P95 * d.Pods
			sumMean += d.Mean * d.Pods
			over += d.Over
			mine += d.Used
			samples += d.Samples
			above += d.Above
			events += d.Events
			changes += d.Changes
			if d.Above == 0 {
				free++
			} else {
				bad++
			}
		}
		used += mine
		if samples > 0 {
			s.UsedMean += mine / float64(samples) * sc.Pods
		}
		s.WorstDays = max(s.WorstDays, bad)
		if bad == 0 {
			s.NeverAbove++
		}
	}
	s.Days = len(slacks)
	if s.Days == 0 {
		return s
	}
	n := float64(s.Days)
	slices.Sort(slacks)
	s.MeanSlack = sumSlack / n
	s.MedianSlack = (slacks[(s.Days-1)/2] + slacks[s.Days/2]) / 2
	if sumMean > 0 {
		s.AggregateSlack = 1 - sumP95/sumMean
	}
	if used > 0 {
		s.Shortfall = over / used
	}
	s.FreeDays = float64(free) / n
	s.Above = float64(above) / n
	s.Events = float64(events) / n
	s.Changes = float64(changes) / n
	return s
}
