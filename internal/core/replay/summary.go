// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Summary is the figures of one resource, over containers and days. It is part of the JSON of a report, in this order.
type Summary struct {
	Containers int `json:"containers"`
	Days       int `json:"container_days"` // measured

	MeanSlack      float64 `json:"mean_slack"` // mean of the slack of the days
	MedianSlack    float64 `json:"median_slack"`
	AggregateSlack float64 `json:"aggregate_slack"` // 1 − Σ p95 / Σ mean request: weighted by size, as the nodes of a cluster see it

	FreeDays   float64 `json:"exceed_free_days"`               // share of days without samples above the request
	Above      float64 `json:"samples_above_per_day"`          // samples above the request, per day
	Events     float64 `json:"oom_kills_per_day"`              // runs of consecutive samples above the request, per day; for memory: OOM kills
	Shortfall  float64 `json:"usage_above"`                    // share of usage above the request
	Changes    float64 `json:"changes_per_day"`                // changes of the request, per day
	Footprint  float64 `json:"footprint"`                      // sum over containers of the mean request of all their pods, in cores or bytes
	UsedMean   float64 `json:"mean_usage"`                     // sum over containers of the mean usage of all their pods, in cores or bytes
	Pods       float64 `json:"mean_pods"`                      // sum over containers of the mean number of pods
	NeverAbove int     `json:"containers_never_above"`         // containers without days above the request
	WorstDays  int     `json:"most_days_above_of_a_container"` // days above the request of the container with the most such days
}

// daysAbove is the share of days with samples above the request, 0 if nothing was measured.
func (s *Summary) daysAbove() float64 {
	if s.Days == 0 {
		return 0
	}
	return 1 - s.FreeDays
}

// summarize combines the scores of one resource.
func summarize(scores []Score, res cluster.Resource) Summary {
	var summary Summary
	var slacks []float64
	var sumP95, sumMean, used float64
	for i := range scores {
		score := &scores[i]
		if score.Resource != res || len(score.Days) == 0 {
			continue
		}
		summary.Containers++
		summary.Footprint += score.Footprint
		summary.Pods += score.Pods
		daysAbove := 0
		samples := 0
		containerUsed := 0.0
		for _, day := range score.Days {
			slack := day.Slack()
			slacks = append(slacks, slack)
			summary.MeanSlack += slack
			sumP95 += day.P95 * day.Pods
			sumMean += day.Mean * day.Pods
			summary.Shortfall += day.Over
			containerUsed += day.Used
			samples += day.Samples
			summary.Above += float64(day.Above)
			summary.Events += float64(day.Events)
			summary.Changes += float64(day.Changes)
			if day.Above == 0 {
				summary.FreeDays++
			} else {
				daysAbove++
			}
		}
		used += containerUsed
		if samples > 0 {
			summary.UsedMean += containerUsed / float64(samples) * score.Pods
		}
		summary.WorstDays = max(summary.WorstDays, daysAbove)
		if daysAbove == 0 {
			summary.NeverAbove++
		}
	}
	summary.Days = len(slacks)
	if summary.Days == 0 {
		return summary
	}
	for _, sum := range []*float64{&summary.MeanSlack, &summary.FreeDays, &summary.Above, &summary.Events, &summary.Changes} {
		*sum /= float64(summary.Days)
	}
	slices.Sort(slacks)
	summary.MedianSlack = (slacks[(summary.Days-1)/2] + slacks[summary.Days/2]) / 2
	if sumMean > 0 {
		summary.AggregateSlack = 1 - sumP95/sumMean
	}
	if used > 0 {
		summary.Shortfall /= used
	}
	return summary
}
