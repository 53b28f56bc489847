// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
)

// millicores returns an amount of CPU that is given in cores.
func millicores(cores float64) cluster.Resources {
	return cluster.Resources{}.Set(cluster.CPU, int64(1000*cores))
}

// TestRequestsOn_anyDay_forecastContainsTheTrueDate checks the generated history on each weekday, so that the scene gives the same result on
// all of them: with the two weeks that the CapacityPlan has first, and with all days.
func TestRequestsOn_anyDay_forecastContainsTheTrueDate(t *testing.T) {
	for d := range 14 {
		now := time.Date(2026, 11, 23+d, 12, 0, 0, 0, time.UTC)
		want := capacity.DayOf(trueDate(now))
		for _, days := range []int{14, 21, 28, historyDays} {
			pool := capacity.Pool{Name: "all", Capacity: millicores(capacityCores), Requested: millicores(requested)}
			var history capacity.History
			for age := days; age >= 0; age-- {
				record := capacity.Record{Day: capacity.DayOf(now) - capacity.Day(age), Requested: millicores(requestsOn(now, age)), Capacity: pool.Capacity}
				history.Days = append(history.Days, record)
			}
			plan := capacity.Assess(now, []capacity.Pool{pool}, capacity.Unplaced{}, map[string]*capacity.History{pool.Name: &history},
				capacity.Settings{LeadTime: leadTime, Thresholds: []float64{1}})
			c := plan.Pools[0].Resources[0].Outlook.Crossings[0]
			if c.State != capacity.Ahead || want < c.Earliest || c.Latest != 0 && want > c.Latest || days == historyDays && c.Latest == 0 {
				t.Errorf("%s with %d days: %+v, want %s", now.Weekday(), days, c, want)
			}
		}
	}
}
