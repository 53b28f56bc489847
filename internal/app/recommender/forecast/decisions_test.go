// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

func TestUsage_kept_isThatOfThePods(t *testing.T) {
	key := cluster.Key{Namespace: "shop", Name: "web-0"}
	u := new(Usage)
	if got := u.byPod(start); len(got) != 0 {
		t.Errorf("got %v before the first samples, want none", got)
	}
	u.Keep([]usage.Sample{{Pod: key, Container: "app", At: start, CPU: 2, Has: cluster.Both}})
	if got := u.byPod(start)[key].CPU; got != 2000 {
		t.Errorf("usage of %dm CPU, want 2000m", got)
	}
	var none *Usage
	none.Keep(nil)
	if got := none.byPod(start); got != nil {
		t.Errorf("got %v without usage, want none", got)
	}
}

func TestLoop_absentPools_areSortedAndForgottenAfterFourWeeks(t *testing.T) {
	today := capacity.DayOf(start)
	last := func(day capacity.Day) *capacity.History {
		return &capacity.History{Days: []capacity.Record{{Day: day}}}
	}
	l := New(Dependencies{})
	l.histories = map[string]*capacity.History{
		"z": last(today), "a": last(today - forgetAfter), "m": last(today - forgetAfter - 1), "never": {}, "present": last(today),
	}
	var names []string
	for _, p := range l.withAbsent([]capacity.Pool{{Name: "present"}}, start) {
		names = append(names, p.Name)
	}
	if want := []string{"a", "present", "z"}; !slices.Equal(names, want) || len(l.histories) != 3 {
		t.Errorf("pools %q, %d histories; want %q", names, len(l.histories), want)
	}
}

func TestHas_dayOrPoolWithoutRequests_isFalse(t *testing.T) {
	today := capacity.DayOf(start)
	known := func(days ...capacity.Day) *capacity.History {
		h := new(capacity.History)
		for _, d := range days {
			h.Days = append(h.Days, capacity.Record{Day: d, Requested: cluster.Amounts(1, 1)})
		}
		return h
	}
	for name, tt := range map[string]struct {
		histories map[string]*capacity.History
		want      bool
	}{
		"all days":                 {map[string]*capacity.History{"a": known(today-2, today-1)}, true},
		"no pool":                  {nil, false},
		"first day is missing":     {map[string]*capacity.History{"a": known(today - 1)}, false},
		"last day is missing":      {map[string]*capacity.History{"a": known(today - 2)}, false},
		"one pool lacks a day":     {map[string]*capacity.History{"a": known(today-2, today-1), "b": known(today - 1)}, false},
		"day without its requests": {map[string]*capacity.History{"a": {Days: []capacity.Record{{Day: today - 2}, {Day: today - 1}}}}, false},
	} {
		l := New(Dependencies{})
		l.histories = tt.histories
		if got := l.has(today-2, today); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

func TestLoop_prometheusHasMoreThanTheHistoryKeeps_backfillEnds(t *testing.T) {
	b := newBench(t)
	from := &fakePast{days: 1000, today: start}
	b.past = from.Requests
	b.elect()
	b.world.run("web", 80, cluster.Amounts(1500, 3<<30))
	for i := range 40 {
		b.pass(start.Add(time.Duration(i) * time.Minute))
	}
	if most := int(capacity.MostDays)/backfillDays + 1; from.queries > most || !b.loop.backfill.done {
		t.Errorf("%d queries, ended: %t; want at most %d and an end", from.queries, b.loop.backfill.done, most)
	}
}

func TestMetrics_poolWithoutForecast_hasCapacityButNoForecast(t *testing.T) {
	b := newBench(t)
	now := b.scene(5)
	for name, want := range map[string]float64{"podfit_capacity_total": 192, "podfit_capacity_without_largest_node": 128, "podfit_capacity_forecast_available": 0} {
		if got := b.metric(name, "worker", "cpu"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := b.metric("podfit_capacity_largest_pod", "worker", "cpu"); !(got > 0 && got < 64) {
		t.Errorf("the largest pod that fits requests %v cores, want between 0 and 64", got)
	}
	for day := 1; day <= 40; day++ {
		b.pass(now.AddDate(0, 0, day))
	}
	if got := b.metric("podfit_capacity_forecast_available", "worker", "cpu"); got != 1 {
		t.Errorf("podfit_capacity_forecast_available is %v after 45 days, want 1", got)
	}
}

// Each plan has one pool with another name, so a scrape that sees none or two has seen a part of a plan.
func TestMetrics_scrapeWhilePublishing_seesOnePlan(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	publish := func(i int) {
		m.publish(&capacity.Plan{Pools: []capacity.PoolPlan{{
			Pool: capacity.Pool{Name: fmt.Sprint(i % 2)}, Resources: [2]capacity.ResourcePlan{{Resource: cluster.CPU, Capacity: 1000}, {Resource: cluster.Memory, Capacity: 1 << 30}},
		}}})
	}
	publish(0)
	stop := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				publish(i)
			}
		}
	})
	defer publisher.Wait()
	defer close(stop)
	for scrape := range 200 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := 0
		for _, f := range families {
			if f.GetName() == "podfit_capacity_total" {
				values = len(f.GetMetric())
			}
		}
		if values != 2 {
			t.Fatalf("scrape %d: %d values, want one for each resource of one pool", scrape, values)
		}
	}
}

func TestLoop_staleNodes_recordNothing(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	b.world.stale = []string{"nodes"}
	b.pass(now.AddDate(0, 0, 1))
	b.world.stale = []string{"quotas"}
	if days, _ := b.status("pools", 0, "history", "days").([]any); len(days) != 20 {
		t.Errorf("%d days while the nodes are stale, want 20", len(days))
	}
	b.pass(now.AddDate(0, 0, 1))
	if days, _ := b.status("pools", 0, "history", "days").([]any); len(days) != 21 {
		t.Errorf("%d days while only the quotas are stale, want 21", len(days))
	}
}
