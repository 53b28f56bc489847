// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// full returns the state and the dates of 100 % of CPU.
func (b *bench) full() string {
	return fmt.Sprint(b.status("pools", 0, "cpu", "thresholds", 1))
}

func TestLoop_nodeDisappears_requestsStayAndCapacityFalls(t *testing.T) {
	b := newBench(t)
	now := b.scene(60)
	b.world.nodes = b.world.nodes[:2] // the pods of the third node still exist
	b.pass(now.Add(time.Minute))
	for name, c := range map[string]struct{ got, want any }{
		"requested":   {b.status("pools", 0, "cpu", "requested"), "148500m"},
		"capacity":    {b.status("pools", 0, "cpu", "capacity"), "128"},
		"lose a node": {b.condition("CanLoseANode"), "False"},
		"100 percent": {b.status("pools", 0, "cpu", "thresholds", 1, "state"), "Above"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	b.world.nodes = newWorld().nodes
	b.pass(now.Add(20 * time.Minute)) // a state that was written before is not written again within 10 minutes
	if got := b.status("pools", 0, "cpu", "thresholds", 1, "state"); got != "Ahead" {
		t.Errorf("100 %% is %v after the node is back, want Ahead", got)
	}
}

func TestLoop_nodesWithoutLabelsAndCapacity_areOnePoolWithoutADate(t *testing.T) {
	b := newBench(t)
	for i := range b.world.nodes {
		n := &b.world.nodes[i]
		n.Labels, n.Capacity, n.Allocatable = nil, cluster.Resources{}, cluster.Resources{}
	}
	b.scene(20)
	if got := fmt.Sprint(b.status("pools", 0, "name"), b.status("pools", 1), " ", b.status("pools", 0, "cpu", "advice")); got != "other<nil> NoForecast" {
		t.Errorf("pool, next pool and advice: %s", got)
	}
	if got := b.full(); strings.Contains(got, "20") {
		t.Errorf("100 %%: %s, want no date", got)
	}
	for _, name := range []string{"podfit_capacity_requested", "podfit_capacity_total", "podfit_capacity_forecast_available"} {
		if got := b.metric(name, "other", "cpu"); math.IsNaN(got) || math.IsInf(got, 0) {
			t.Errorf("%s is %v", name, got)
		}
	}
}

func TestLoop_gapsOfDays_planHasADate(t *testing.T) {
	b := newBench(t)
	now := start
	for day := range 60 {
		now = start.AddDate(0, 0, day)
		if day >= 25 && day < 32 || day%9 == 4 { // podfit did not run for a week, and now and then for a day
			continue
		}
		b.world.run("web", 70+day/2, cluster.Amounts(1500, 3<<30))
		b.pass(now)
	}
	expected, err := time.Parse(time.DateOnly, fmt.Sprint(b.status("pools", 0, "cpu", "thresholds", 1, "expected")))
	if days := expected.Sub(now).Hours() / 24; err != nil || days < 48 || days > 68 { // 58 without gaps
		t.Errorf("100 %%: %s, %v days from now, want about 58 (%v)", b.full(), days, err)
	}
}

func TestLoop_clockJumpsAndComesBack_dateIsTheSame(t *testing.T) {
	for name, jump := range map[string]time.Duration{"3 weeks ahead": 21 * 24 * time.Hour, "5 years ahead": 5 * 365 * 24 * time.Hour, "3 days back": -3 * 24 * time.Hour, "a year back": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			now := b.scene(60)
			expected := func() string {
				return fmt.Sprint(b.status("pools", 0, "cpu", "thresholds", 1, "state"), " ", b.status("pools", 0, "cpu", "thresholds", 1, "expected"))
			}
			want := expected()
			if !strings.HasPrefix(want, "Ahead 20") {
				t.Fatalf("100 %%: %s", want)
			}
			b.pass(now.Add(jump))
			b.pass(now.Add(time.Minute))
			b.pass(now.Add(20 * time.Minute))
			if got := expected(); got != want {
				t.Errorf("100 %%: %s, and %s before the clock jumped", got, want)
			}
		})
	}
}
