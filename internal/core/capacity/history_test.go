// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func loadsOf(values map[string][2]int64) []Load { // pods, millicores of a pod
	var out []Load
	for name, v := range values {
		out = append(out, Load{
			Workload: cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: name}, Pods: int(v[0]), Requests: cluster.Amounts(v[0]*v[1], v[0]*gib),
		})
	}
	slices.SortFunc(out, func(a, b Load) int { return a.Workload.Compare(b.Workload) })
	return out
}

func poolWith(values map[string][2]int64) *Pool {
	p := &Pool{Name: "a", Capacity: cluster.Amounts(total, 768*gib), Requested: cluster.Amounts(0, 0), Loads: loadsOf(values)}
	for _, l := range p.Loads {
		p.Requested = p.Requested.Add(l.Requests)
	}
	return p
}

func TestHistory_growth_hasFourCausesThatAddUp(t *testing.T) {
	h := new(History)
	day := func(n int) time.Time { return now.AddDate(0, 0, n-10) }
	h.Record(day(0), poolWith(map[string][2]int64{"web": {4, 1000}, "old": {2, 500}, "db": {1, 8000}}))
	h.Record(day(1), poolWith(map[string][2]int64{"web": {6, 1000}, "db": {1, 9000}, "new": {3, 700}}))
	g, change, days := h.Grown(cluster.CPU, DayOf(day(1)))
	if g.Replicas.CPU != 2000 || g.Gone.CPU != -1000 || g.PerPod.CPU != 1000 || g.New.CPU != 2100 || change != 4100 || days != 1 {
		t.Errorf("%+v, %d in %d days", g, change, days)
	}
	if g.Explained(cluster.CPU) != change {
		t.Errorf("the parts add up to %d, want %d", g.Explained(cluster.CPU), change)
	}
	// Both at once: more replicas, at the requests that they had before, and the rest by other requests.
	h.Record(day(2), poolWith(map[string][2]int64{"web": {8, 2000}, "db": {1, 9000}, "new": {3, 700}}))
	if got := h.Days[2].Growth; got.Replicas.CPU != 2000 || got.PerPod.CPU != 8000 {
		t.Errorf("%+v", got)
	}
	steps := h.Steps(cluster.CPU, total)
	if len(steps) != 1 || steps[0].Day != DayOf(day(2)) || steps[0].Amount != 8000 {
		t.Errorf("steps %+v, want one of 8 cores", steps)
	}
}

func TestHistory_valuesOfADay_maximumCounts(t *testing.T) {
	h := new(History)
	start := today.Time()
	for hour := range 24 { // scaled by an HPA over the day
		pods := int64(10)
		if hour >= 9 && hour < 17 {
			pods = 30
		}
		h.Record(start.Add(time.Duration(hour)*time.Hour), poolWith(map[string][2]int64{"web": {pods, 1000}}))
		h.Record(start.AddDate(0, 0, 1).Add(time.Duration(hour)*time.Hour), poolWith(map[string][2]int64{"web": {pods + 1, 1000}}))
	}
	if len(h.Days) != 2 || h.Days[0].Requested.CPU != 30_000 || h.Days[1].Requested.CPU != 31_000 {
		t.Errorf("days %+v", h.Days)
	}
}

// The daily rise and fall of an HPA is no growth: the parts add up to the difference of the maxima.
func TestHistory_scaledEachDay_growthIsTheDifferenceOfMaxima(t *testing.T) {
	h := new(History)
	for hour := range 24 * 10 {
		pods := int64(10 + hour/24)
		if hour%24 >= 9 && hour%24 < 17 {
			pods += 20
		}
		h.Record(today.Time().AddDate(0, 0, -10).Add(time.Duration(hour)*time.Hour), poolWith(map[string][2]int64{"web": {pods, 1000}}))
	}
	g, change, _ := h.Grown(cluster.CPU, today-1)
	if change != 9000 || g.Explained(cluster.CPU) != 9000 {
		t.Errorf("explained %d of %d, want 9000", g.Explained(cluster.CPU), change)
	}
}

func TestHistory_workloadThatComesBack_hasNotChanged(t *testing.T) {
	h := new(History)
	with, without := poolWith(map[string][2]int64{"web": {4, 1000}, "db": {9, 1000}}), poolWith(map[string][2]int64{"web": {20, 1000}})
	h.Record(now, with)
	h.Record(now.Add(time.Hour), without)
	h.Record(now.Add(2*time.Hour), poolWith(map[string][2]int64{"web": {20, 1000}, "db": {9, 1000}}))
	for _, c := range h.Changes {
		if c.Workload.Name == "db" {
			t.Errorf("change %+v", c)
		}
	}
}

func TestHistory_partialLoads_smallWorkloadsAreNotNew(t *testing.T) {
	h := &History{Partial: true, Loads: loadsOf(map[string][2]int64{"big": {10, 1000}, "middle": {5, 1000}})}
	h.Record(now, poolWith(map[string][2]int64{"big": {10, 1000}, "middle": {5, 1000}, "small": {1, 100}, "huge": {20, 1000}}))
	if got := h.Days[0].Growth.New.CPU; got != 20_000 {
		t.Errorf("new workloads %d, want only the large one", got)
	}
}

func TestHistory_clockJumps_pastDaysAreKept(t *testing.T) {
	h := new(History)
	for i := range 100 {
		h.Record(now.AddDate(0, 0, i-99), poolWith(map[string][2]int64{"web": {int64(50 + i), 1000}}))
	}
	if len(h.Days) != MostDays || h.Days[MostDays-1].Day != today {
		t.Fatalf("%d days until %s", len(h.Days), h.Days[len(h.Days)-1].Day)
	}
	for range 3 {
		h.Record(now.AddDate(5, 0, 0), poolWith(map[string][2]int64{"web": {1, 1000}}))
	}
	future := outlookOf(Input{Points: h.Points(cluster.CPU), Capacity: total, Thresholds: []float64{1}, Now: now.AddDate(5, 0, 0)})
	if future.Crossings[0].State == Ahead {
		t.Errorf("a date with a clock that is 5 years ahead: %+v", future.Crossings[0])
	}
	h.Record(now.Add(time.Hour), poolWith(map[string][2]int64{"web": {150, 1000}}))
	if n := len(h.Days); n != MostDays {
		t.Errorf("%d days", n)
	}
	o := outlookOf(Input{Points: h.Points(cluster.CPU), Capacity: total, Thresholds: []float64{1}, Now: now.Add(time.Hour)})
	if o.Days < MostDays-2 || o.Crossings[0].State != Ahead {
		t.Errorf("after the clock is right again: %d days, %+v", o.Days, o.Crossings[0])
	}
}

func TestHistory_thousandsOfChanges_areBounded(t *testing.T) {
	h := new(History)
	for i := range 60 {
		values := map[string][2]int64{"fixed": {int64(100 + i), 1000}}
		for k := range 200 {
			values[fmt.Sprintf("w%d-%d", i, k)] = [2]int64{1, 100}
		}
		h.Record(now.AddDate(0, 0, i-59), poolWith(values))
	}
	if n := len(h.Changes); n > 4*MostChanges+400 {
		t.Errorf("%d changes", n)
	}
	if n := len(LargestChanges(h.Changes, MostChanges)); n != MostChanges {
		t.Errorf("%d of the largest changes", n)
	}
	for _, c := range h.Changes {
		if c.Day <= today-GrowthDays {
			t.Errorf("change of %s is kept", c.Day)
		}
	}
}

func TestHistory_fill_keepsWhatIsKnown(t *testing.T) {
	h := new(History)
	h.Record(now.AddDate(0, 0, -2), poolWith(map[string][2]int64{"web": {4, 1000}}))
	var days []Record
	for i := range 5 {
		days = append(days, Record{Day: today - Day(4-i), Requested: cluster.Amounts(9000, gib), Capacity: cluster.Amounts(10_000, 2*gib)})
	}
	h.Fill(append(days, Record{Day: -3}, Record{Day: today + 9}), today)
	var got []string
	for _, r := range h.Days {
		got = append(got, fmt.Sprintf("%d:%d", today-r.Day, r.Requested.CPU))
	}
	if want := []string{"4:9000", "3:9000", "2:4000", "1:9000"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCollect_hoursOfNodes_areDaysOfPools(t *testing.T) {
	nodes := []cluster.Node{nodeOf("a1", "pool=a"), nodeOf("b1", "pool=b")}
	rules := &Rules{PoolLabel: "pool"}
	at := func(day, hour int) time.Time {
		return today.Time().AddDate(0, 0, day).Add(time.Duration(hour) * time.Hour)
	}
	hour := func(at time.Time, node string, cpu int64) NodeHour {
		return NodeHour{At: at, Node: node, Requested: cluster.Amounts(cpu, gib), Capacity: cluster.Amounts(16_000, 64*gib)}
	}
	got := Collect([]NodeHour{
		hour(at(-2, 1), "a1", 1000), hour(at(-2, 5), "a1", 3000), hour(at(-2, 7), "a1", 2000), hour(at(-2, 5), "b1", 500),
		hour(at(-3, 5), "a1", 700), hour(at(-3, 5), "b1", 700), hour(at(-3, 5), "gone", 900), // too much on a node whose pool is not known
		hour(at(-4, 5), "a1", 60_000), {At: at(-4, 5), Requested: cluster.Amounts(500, gib/100)}, // pending pods, less than 5 %
	}, nodes, rules)
	if a := got["a"]; len(a) != 2 || a[0].Day != today-4 || a[1].Day != today-2 || a[1].Requested.CPU != 3000 || a[1].Capacity.CPU != 16_000 {
		t.Errorf("a: %+v", a)
	}
	if b := got["b"]; len(b) != 1 || b[0].Requested.CPU != 500 {
		t.Errorf("b: %+v", b)
	}
	// With one pool, all nodes of the past were in it.
	one := Collect([]NodeHour{hour(at(-3, 5), "a1", 700), hour(at(-3, 5), "gone", 900), hour(at(-3, 5), "", 100)}, nodes[:1], rules)
	if len(one["a"]) != 1 || one["a"][0].Requested.CPU != 1700 {
		t.Errorf("one pool: %+v", one)
	}
}

func TestAdvice_situations_haveTheirText(t *testing.T) {
	h := new(History)
	for _, p := range line(60, 150_000, 1000) {
		h.Days = append(h.Days, Record{Day: p.Day, Requested: cluster.Amounts(int64(p.Requested), gib), Capacity: cluster.Amounts(total, 768*gib)})
	}
	pool := func(recoverable int64) Pool {
		return Pool{Name: "a", Nodes: 3, Capacity: cluster.Amounts(total, 768*gib), WithoutLargest: cluster.Amounts(128_000, 512*gib),
			Requested: cluster.Amounts(150_000, gib), Recoverable: cluster.Amounts(recoverable, 0), GiveBack: [2]int{14, 0}}
	}
	for name, c := range map[string]struct {
		pool     Pool
		leadTime int
		want     Advice
		text     string
	}{
		"order later":                  {pool(0), 14, OrderLater, "order by "},
		"order now":                    {pool(0), 60, OrderNow, "order now: the pool may be full on "},
		"give back":                    {pool(71_000), 60, GiveBack, "do not order: 14 workloads could give back 71 cores, which leaves 41 %; then 100 % is not within 90 days"},
		"giving back does not suffice": {pool(5000), 60, OrderNow, "14 workloads could give back 5 cores, and it may then be full on "},
	} {
		s := Defaults()
		s.LeadTime = c.leadTime
		r := Assess(now, []Pool{c.pool}, Unplaced{}, map[string]*History{"a": h}, s).Pools[0].Resources[0]
		if r.Advice != c.want || !strings.Contains(r.AdviceText(), c.text) {
			t.Errorf("%s: %s, %q", name, r.Advice, r.AdviceText())
		}
	}
	full := pool(0)
	full.Requested = cluster.Amounts(total, gib)
	r := Assess(now, []Pool{full}, Unplaced{}, map[string]*History{"a": h}, Defaults()).Pools[0].Resources[0]
	if r.AdviceText() != "order now: the pool is full" || r.CanLoseANode() {
		t.Errorf("full: %q", r.AdviceText())
	}
}

// In a cluster with many short-lived workloads, all of them change between two maxima. The work grows with their number, not its square.
func TestRecord_manyWorkloadsChange_keepsTheLargest(t *testing.T) {
	pool := func(day, n int) *Pool {
		p := &Pool{Requested: cluster.Amounts(int64(100*n), 0)}
		for i := range n {
			w := cluster.Workload{Group: "batch", Kind: "Job", Namespace: "ci", Name: fmt.Sprintf("job-%d-%06d", day, i)}
			p.Loads = append(p.Loads, Load{Workload: w, Pods: 1, Requests: cluster.Amounts(100, gib)})
		}
		return p
	}
	h := new(History)
	const jobs = 50_000 // with quadratic work, this takes minutes
	at := Day(20_000).Time()
	h.Record(at, pool(0, jobs))
	h.Record(at.AddDate(0, 0, 1), pool(1, jobs))
	if n := len(h.Changes); n != MostChanges {
		t.Errorf("%d changes are kept, want %d", n, MostChanges)
	}
	if g := h.Days[1].Growth; g.New.CPU != 100*jobs || g.Gone.CPU != -100*jobs {
		t.Errorf("growth %+v", g)
	}
}
