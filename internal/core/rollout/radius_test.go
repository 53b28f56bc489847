// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestRadius_changesInTheLastHour_limitTheNextOne(t *testing.T) {

	change := func(ago time.Duration, cpu int64) Change {
		return Change{At: noon.Add(-ago).Truncate(time.Minute), Requests: cluster.Amounts(cpu, 0)}
	}
	for name, c := range map[string]struct {
		radius  Radius
		pod     cluster.Resources
		percent int
		until   time.Duration // after noon; 0: not exceeded
	}{
		"first change is always possible": {Radius{Share: 0.1}, cluster.Amounts(500, 0), 0, 0},
		"within the share":                {Radius{Share: 0.2, Changes: []Change{change(30*time.Minute, 100)}}, cluster.Amounts(100, 0), 0, 0},
		"exceeds the share":               {Radius{Share: 0.2, Changes: []Change{change(30*time.Minute, 100)}}, cluster.Amounts(101, 0), 20, 31 * time.Minute},
		"two must expire": {Radius{Share: 0.2, Changes: []Change{change(10*time.Minute, 100), change(50*time.Minute, 100)}},
			cluster.Amounts(150, 0), 35, 51 * time.Minute},
		"memory counts, too": {Radius{Share: 0.2, Changes: []Change{{At: noon, Requests: cluster.Amounts(0, 150)}}}, cluster.Amounts(1, 100), 25, 61 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c.radius.Total = cluster.Amounts(1000, 1000)
			percent, until, exceeded := c.radius.Exceeded(c.pod)
			var want time.Time
			if c.until > 0 {
				want = noon.Add(c.until)
			}
			if exceeded != (c.until > 0) || !until.Equal(want) || percent != c.percent {
				t.Errorf("exceeded %t, %d%% until %v, want %v", exceeded, percent, until, want)
			}
		})
	}
	planned := Radius{Share: 0.2, Total: cluster.Amounts(1000, 1000), Planned: cluster.Amounts(150, 0)}
	if _, _, exceeded := planned.Exceeded(cluster.Amounts(100, 0)); !exceeded {
		t.Error("decided changes do not count")
	}
	if _, _, exceeded := (&Radius{Share: 0.2, Planned: cluster.Amounts(150, 0)}).Exceeded(cluster.Amounts(100, 0)); exceeded {
		t.Error("an unknown total limits changes")
	}
}

func TestRecord_manyChanges_keepsABoundedListOfTheLastHour(t *testing.T) {

	var list []Change
	for s := range 3 * 3600 {
		list = Record(list, noon.Add(time.Duration(s)*time.Second), cluster.Amounts(1, 1))
		if len(list) > MaxChanges {
			t.Fatalf("%d entries", len(list))
		}
	}
	sum := int64(0)
	for _, c := range list {
		sum += c.Requests.CPU
	}
	if sum < 3600 || sum > 3600+120 {
		t.Errorf("%d changes in an hour, want about 3600", sum)
	}
	back := Record(list, noon, cluster.Amounts(1, 1)) // the clock was set back
	if len(back) == 0 || len(back) > MaxChanges || back[len(back)-1].At.After(noon) {
		t.Errorf("%d entries, the last at %v", len(back), back[len(back)-1].At)
	}
	if got := Recent(list, noon.Add(5*time.Hour)); len(got) != 0 {
		t.Errorf("%d changes after two hours", len(got))
	}
}
