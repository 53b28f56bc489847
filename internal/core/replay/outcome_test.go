// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/recommend"
)

func TestDefaultTolerance_severalProfiles_isTheLargestBudget(t *testing.T) {
	builtins := func(names ...string) (profiles []recommend.Profile) {
		for _, name := range names {
			p, _ := recommend.BacktestProfile(name)
			profiles = append(profiles, p)
		}
		return profiles
	}
	for name, tt := range map[string]struct {
		profiles []recommend.Profile
		want     float64
	}{
		"several budgets":           {builtins("default", "critical", "cost"), recommend.Cost().Memory.Budget},
		"one budget":                {builtins("critical", "window-max"), recommend.Critical().Memory.Budget},
		"budget of balanced":        {builtins("busy-hours"), recommend.Balanced().Memory.Budget},
		"no profile has a budget":   {builtins("default", "autopilot"), recommend.Balanced().Memory.Budget},
		"nothing to compare at all": {nil, recommend.Balanced().Memory.Budget},
	} {
		if got := DefaultTolerance(tt.profiles).DaysAbove; got != tt.want {
			t.Errorf("%s: got %g, want %g", name, got, tt.want)
		}
	}
}

func TestBest_severalOutcomes_cheapestWithinToleranceWins(t *testing.T) {
	outcome := func(free, money float64) Outcome {
		return Outcome{Memory: Summary{Days: 100, FreeDays: free}, Money: money}
	}
	for name, tt := range map[string]struct {
		outcomes []Outcome
		want     []int
	}{
		"no outcome":                   {nil, nil},
		"nothing measured":             {[]Outcome{{Money: 1}}, nil},
		"cheapest within tolerance":    {[]Outcome{outcome(0.90, 1), outcome(1, 9), outcome(0.99, 5)}, []int{2}},
		"none within tolerance":        {[]Outcome{outcome(0.90, 1), outcome(0.95, 9)}, []int{1}},
		"others not measured":          {[]Outcome{{}, outcome(0.5, 1), {}}, []int{1}},
		"equal cost":                   {[]Outcome{outcome(1, 4), outcome(0.99, 3), outcome(1, 5), outcome(1, 3)}, []int{1, 3}},
		"equal excess and equal cost":  {[]Outcome{outcome(0.9, 3), outcome(0.9, 3)}, []int{0, 1}},
		"equal excess, different cost": {[]Outcome{outcome(0.9, 3), outcome(0.9, 2)}, []int{1}},
	} {
		if got := Best(tt.outcomes, DefaultTolerance(nil)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestWorst_severalWorkloads_sortsByHarmThenCost(t *testing.T) {
	outcome := func(free, shortfall, money float64) Outcome {
		return Outcome{Memory: Summary{Days: 10, FreeDays: free}, CPU: Summary{Days: 10, Shortfall: shortfall}, Money: money}
	}
	c := &Comparison{}
	for _, outcomes := range [][]Outcome{
		{outcome(1, 0, 1), outcome(1, 0, 2)},
		{outcome(1, 0, 9), outcome(1, 0, 3)},
		{outcome(0.9, 0, 1), outcome(1, 0, 1)},
		{outcome(1, 0, 1), outcome(1, 0.5, 1)},
		{},
	} {
		c.Workloads = append(c.Workloads, WorkloadResult{Outcomes: outcomes})
	}
	if got, want := c.Worst(), []int{3, 2, 1, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
