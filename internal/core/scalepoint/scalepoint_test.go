// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scalepoint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestNext_recordsAndPods_determineTheTarget(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	at := func(percent, set int32, resets int, age time.Duration) cluster.ScalePoint {
		p := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: percent, Set: set, Resets: resets}
		if resets > 0 {
			p.ResetAt = now.Add(-age)
		}
		return p
	}
	one := func(p cluster.ScalePoint) []cluster.ScalePoint { return []cluster.ScalePoint{p} }
	for name, c := range map[string]struct {
		percent int32
		points  []cluster.ScalePoint
		wanted  bool
		average Average
		due     bool
		target  int32 // 0: unchanged
		after   []cluster.ScalePoint
		stopped bool
	}{
		"not wanted":                     {percent: 80, average: Average{500, 500}},
		"no pods":                        {percent: 80, wanted: true},
		"first record":                   {percent: 80, wanted: true, average: Average{500, 400}, due: true, after: one(at(80, 80, 0, 0))},
		"nothing changes":                {80, one(at(80, 80, 0, 0)), true, Average{500, 500}, false, 0, one(at(80, 80, 0, 0)), false},
		"pods will shrink":               {80, one(at(80, 80, 0, 0)), true, Average{500, 460}, true, 87, one(at(80, 87, 0, 0)), false},
		"pods have grown":                {80, one(at(80, 80, 0, 0)), true, Average{640, 640}, true, 63, one(at(80, 63, 0, 0)), false},
		"scaled to zero":                 {63, one(at(80, 63, 0, 0)), true, Average{}, false, 0, one(at(80, 63, 0, 0)), false},
		"reset by others":                {80, one(at(80, 63, 0, 0)), true, Average{640, 640}, true, 63, one(at(80, 63, 1, 0)), false},
		"reset for the last time":        {80, one(at(80, 63, 2, time.Hour)), true, Average{640, 640}, true, 0, one(at(80, 80, 3, 0)), true},
		"earlier resets are old":         {80, one(at(80, 63, 2, 25*time.Hour)), true, Average{640, 640}, true, 63, one(at(80, 63, 1, 0)), false},
		"stopped":                        {75, one(at(80, 80, 3, time.Hour)), true, Average{640, 640}, false, 0, one(at(80, 80, 3, time.Hour)), false},
		"stopped, opt-in removed":        {percent: 75, points: one(at(80, 80, 3, time.Hour)), average: Average{640, 640}, due: true},
		"opt-in removed, pods are new":   {63, one(at(80, 63, 0, 0)), false, Average{640, 640}, false, 0, one(at(80, 63, 0, 0)), false},
		"opt-in removed, pods are mixed": {63, one(at(80, 63, 0, 0)), false, Average{570, 570}, true, 71, one(at(80, 71, 0, 0)), false},
		"opt-in removed, pods are back":  {percent: 71, points: one(at(80, 71, 0, 0)), average: Average{500, 500}, due: true, target: 80},
		"opt-in removed, no pods":        {percent: 71, points: one(at(80, 71, 0, 0)), due: true, target: 80},
	} {
		h := &cluster.HorizontalAutoscaler{Utilization: []cluster.UtilizationTarget{{Index: 2, Resource: cluster.CPU, Percent: c.percent}}, Points: c.points}
		step, due := Next(now, h, []Request{{Average: c.average, Wanted: c.wanted}})
		if due != c.due || step.Targets[2] != c.target || step.Stopped != c.stopped {
			t.Errorf("%s: due %t, targets %v, stopped %t; want %t, %d, %t", name, due, step.Targets, step.Stopped, c.due, c.target, c.stopped)
		}
		if diff := cmp.Diff(c.after, step.Points); diff != "" {
			t.Errorf("%s: records (-want +got):\n%s", name, diff)
		}
	}
}

// The API server accepts an HPA that has a metric twice. The record applies to the first of them, and podfit must not change the target of the other.
func TestNext_metricTwice_secondOneIsNotWritten(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	u := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 63}
	twice := u
	twice.Index, twice.Percent = 1, 70
	h := &cluster.HorizontalAutoscaler{
		Utilization: []cluster.UtilizationTarget{u, twice},
		Points:      []cluster.ScalePoint{{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 63}},
	}
	for _, wanted := range []bool{false, true} {
		r := Request{Average: Average{Now: 640, Lowest: 640}, Wanted: wanted}
		if step, due := Next(now, h, []Request{r, r}); due {
			t.Errorf("wanted %t: step %+v, want none", wanted, step)
		}
	}
	// Without a record, one is made.
	h.Points = nil
	r := Request{Average: Average{Now: 640, Lowest: 640}, Wanted: true}
	if step, _ := Next(now, h, []Request{r, r}); len(step.Points) != 1 {
		t.Errorf("records %+v, want one", step.Points)
	}
}

func TestPercentAt_averageRequest_keepsTheProduct(t *testing.T) {
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 80}
	low := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 40, Set: 40}
	for _, c := range []struct {
		point   cluster.ScalePoint
		average int64
		want    int32
	}{
		{point, 500, 80}, {point, 640, 63}, {point, 800, 50}, {point, 2000, 50}, {point, 450, 89}, {point, 100, 90}, {point, 0, 80},
		{low, 500, 40}, {low, 400, 50}, {low, 1000, 40},
	} {
		if got := PercentAt(&c.point, c.average); got != c.want {
			t.Errorf("%d %% of %d at %d: got %d %%, want %d %%", c.point.Percent, c.point.Base, c.average, got, c.want)
		}
	}
}

func TestRequestsAt_range_containsRequestsThatATargetCanFollow(t *testing.T) {
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 80}
	r := RequestsAt(&point)
	if r != (Range{Low: 445, High: 800}) {
		t.Errorf("got %+v, want the requests of the targets from 90 %% to 50 %%", r)
	}
	for request, want := range map[int64]bool{442: false, 443: true, 445: true, 800: true, 802: true, 803: false} {
		if got := r.Contains(request, 2); got != want {
			t.Errorf("a request of %d, rounded in two containers: got %v, want %v", request, got, want)
		}
	}
}
