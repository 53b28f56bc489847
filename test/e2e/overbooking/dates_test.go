// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
)

// TestRequestsOn_anyDay_forecastContainsTheTrueDate checks the generated history on each weekday, so that the scene gives the same result on
// all of them: with the two weeks that the CapacityPlan has first, and with all days.
func TestRequestsOn_anyDay_forecastContainsTheTrueDate(t *testing.T) {
	for d := range 14 {
		now := time.Date(2026, 11, 23+d, 12, 0, 0, 0, time.UTC)
		want := capacity.DayOf(trueDate(now))
		for _, days := range []int{14, 21, 28, historyDays} {
			in := capacity.Input{Capacity: 1000 * capacityCores, Requested: 1000 * requested, Thresholds: []float64{1}, LeadTime: leadTime, Now: now}
			for age := days; age >= 0; age-- {
				in.Points = append(in.Points, capacity.Point{Day: capacity.DayOf(now) - capacity.Day(age), Requested: 1000 * requestsOn(now, age), Capacity: in.Capacity})
			}
			c := capacity.Forecast(in).Crossings[0]
			if c.State != capacity.Ahead || want < c.Earliest || c.Latest != 0 && want > c.Latest || days == historyDays && c.Latest == 0 {
				t.Errorf("%s with %d days: %+v, want %s", now.Weekday(), days, c, want)
			}
		}
	}
}
