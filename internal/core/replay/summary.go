// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "slices"

// A Summary is the figures of one resource, over containers and days.
type Summary struct {
	Containers int
	Days       int // measured container-days

	MeanSlack      float64 // mean of the slack of the days
	MedianSlack    float64
	AggregateSlack float64 // 1 − Σ p95 / Σ mean request: weighted by size, as the nodes of a cluster see it

	FreeDays   float64 // share of days without samples above the request
	Above      float64 // samples above the request, per day
	Events     float64 // runs of consecutive samples above the request, per day; for memory: OOM kills
	Shortfall  float64 // share of usage above the request
	Changes    float64 // changes of the request, per day
	Footprint  float64 // sum over containers of the mean request of all their pods
	UsedMean   float64 // sum over containers of the mean usage of all their pods
	Pods       float64 // sum over containers of the mean number of pods
	WorstDays  int     // days above the request of the container with the most such days
	NeverAbove int     // containers without such days
}

// Summarize combines the scores of one resource.
func Summarize(scores []Score) Summary {
	var s Summary
	var slacks []float64
	var sumP95, sumMean, sumSlack, over, used float64
	var above, events, changes, free int
	for i := range scores {
		score := &scores[i]
		if len(score.Days) == 0 {
			continue
		}
		s.Containers++
		s.Footprint += score.Footprint
		s.Pods += score.Pods
		daysAbove := 0
		samples := 0
		containerUsed := 0.0
		for _, d := range score.Days {
			slack := d.Slack()
			slacks = append(slacks, slack)
			sumSlack += slack
			sumP95 += d.P95 * d.Pods
			sumMean += d.Mean * d.Pods
			over += d.Over
			containerUsed += d.Used
			samples += d.Samples
			above += d.Above
			events += d.Events
			changes += d.Changes
			if d.Above == 0 {
				free++
			} else {
				daysAbove++
			}
		}
		used += containerUsed
		if samples > 0 {
			s.UsedMean += containerUsed / float64(samples) * score.Pods
		}
		s.WorstDays = max(s.WorstDays, daysAbove)
		if daysAbove == 0 {
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
