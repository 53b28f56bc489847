// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// The bounds of a History.
const (
	MostDays    = 90 // days
	MostChanges = 32 // changes; the largest ones are kept
	GrowthDays  = 28 // days over which growth is added up, and for which changes are kept
)

// A History is what is kept of a pool.
type History struct {
	Days    []Record // sorted by day
	Changes []Change // sorted by day, workload and cause
	Loads   []Load   // at the last maximum of requested CPU; nil if they are not known
	Partial bool     // Loads contains only the largest workloads
}

// A Record has the values of one day in the stored history. An amount that is not set is unknown.
type Record struct {
	Day       Day
	Requested cluster.Resources // highest sum of requests
	Capacity  cluster.Resources // last capacity of schedulable nodes
	Used      cluster.Resources // highest sum of usage
	Growth    Growth            // since the maximum of the day before
}

// Growth is why requests changed. Amounts are in millicores and bytes, and negative if requests fell.
type Growth struct {
	New      cluster.Resources // workloads that arrived
	Gone     cluster.Resources // workloads that left
	Replicas cluster.Resources // more or fewer pods of a workload, at the requests per pod that it had before
	PerPod   cluster.Resources // other requests per pod
}

// Add returns the sum of two growths.
func (g Growth) Add(o Growth) Growth {
	return Growth{New: g.New.Add(o.New), Gone: g.Gone.Add(o.Gone), Replicas: g.Replicas.Add(o.Replicas), PerPod: g.PerPod.Add(o.PerPod)}
}

// Explained returns the part of a resource that has a known cause.
func (g Growth) Explained(res cluster.Resource) int64 {
	return g.New.Amount(res) + g.Gone.Amount(res) + g.Replicas.Amount(res) + g.PerPod.Amount(res)
}

// A Cause is why the requests of a workload changed.
type Cause string

// The causes.
const (
	Arrived Cause = "Arrived"
	Left    Cause = "Left"
	Scaled  Cause = "Scaled"  // it has more or fewer pods
	Resized Cause = "Resized" // its pods have other requests
)

// Causes are all causes, in the order of the changes of a workload on one day.
var Causes = []Cause{Arrived, Left, Scaled, Resized}

// A Change is a change of the requests of a workload on a day.
type Change struct {
	Day      Day
	Workload cluster.Workload
	Cause    Cause
	Amount   cluster.Resources // of all of its pods
}

// compare returns what changed between two lists of loads, sorted by workload. A workload that changes its number of pods and their
// requests has two changes. If before is partial, workloads that are only in after and not larger than the smallest of before are left out.
func compare(before, after []Load, partial bool, day Day) []Change {
	const storedUnit = 1 << 20 // the unit in which memory is stored, in bytes
	var out []Change
	add := func(w cluster.Workload, c Cause, r cluster.Resources) {
		if math.Abs(float64(r.Memory)) < storedUnit { // the loads of the day before may be rounded
			r.Memory = 0
		}
		if r.CPU != 0 || r.Memory != 0 {
			out = append(out, Change{day, w, c, cluster.Amounts(r.CPU, r.Memory)})
		}
	}
	smallest := int64(0)
	if partial && len(before) > 0 {
		smallest = slices.MinFunc(before, func(a, b Load) int { return cmp.Compare(a.Requests.CPU, b.Requests.CPU) }).Requests.CPU
	}
	left := make(map[cluster.Workload]*Load, len(before))
	for i := range before {
		left[before[i].Workload] = &before[i]
	}
	for i := range after {
		w := after[i].Workload
		if last := left[w]; last != nil {
			scaled, resized := split(last, &after[i])
			add(w, Scaled, scaled)
			add(w, Resized, resized)
		} else if !partial || after[i].Requests.CPU > smallest {
			add(w, Arrived, after[i].Requests)
		}
		delete(left, w)
	}
	for w, last := range left {
		add(w, Left, cluster.Amounts(-last.Requests.CPU, -last.Requests.Memory))
	}
	slices.SortStableFunc(out, func(a, b Change) int { return a.Workload.Compare(b.Workload) })
	return out
}

// split returns the parts of a change that more pods and other requests per pod cause. Their sum is the whole change.
func split(before, after *Load) (scaled, resized cluster.Resources) {
	pods := int64(after.Pods - before.Pods)
	per := int64(max(before.Pods, 1))
	for _, res := range cluster.All {
		b := before.Requests.Amount(res)
		a := after.Requests.Amount(res)
		part := b / per * pods
		scaled, resized = scaled.Set(res, part), resized.Set(res, a-b-part)
	}
	return scaled, resized
}

// Record adds the state of a pool at a time. The maximum of the day counts, and what grew is compared at maxima of requested CPU, so that the
// growth of several days adds up to the difference between their maxima.
func (h *History) Record(now time.Time, p *Pool) {
	day := DayOf(now)
	at, known := slices.BinarySearchFunc(h.Days, day, func(r Record, d Day) int { return cmp.Compare(r.Day, d) })
	if !known {
		h.Days = slices.Insert(h.Days, at, Record{Day: day})
	}
	r := &h.Days[at]
	if !known || p.Requested.CPU > r.Requested.CPU {
		h.grow(r, p)
	}
	r.Requested = r.Requested.Highest(p.Requested)
	r.Capacity = p.Capacity
	if !p.Used.Has.Empty() {
		r.Used = r.Used.Highest(p.Used)
	}
	h.trim(day)
}

func (h *History) grow(r *Record, p *Pool) {
	if h.Loads != nil {
		changes := compare(h.Loads, p.Loads, h.Partial, r.Day)
		g := &r.Growth
		parts := map[Cause]*cluster.Resources{Arrived: &g.New, Left: &g.Gone, Scaled: &g.Replicas, Resized: &g.PerPod}
		for _, c := range changes {
			*parts[c.Cause] = parts[c.Cause].Add(c.Amount)
		}
		h.change(changes)
	}
	h.Loads = p.Loads
	h.Partial = false
	if h.Loads == nil {
		h.Loads = []Load{}
	}
}

// A changeKey identifies the change to which others are added.
type changeKey struct {
	day      Day
	workload cluster.Workload
	cause    Cause
}

// keyOf returns the key of a change. A workload that leaves and comes back on one day has not changed, so both have the same key.
func keyOf(c *Change) changeKey {
	cause := c.Cause
	if cause == Left {
		cause = Arrived
	}
	return changeKey{c.Day, c.Workload, cause}
}

// change adds changes to those of the same day, workload and cause.
func (h *History) change(changes []Change) {
	index := make(map[changeKey]int, len(h.Changes)+len(changes))
	for i := range h.Changes {
		index[keyOf(&h.Changes[i])] = i
	}
	for _, c := range changes {
		key := keyOf(&c)
		at, known := index[key]
		if !known {
			index[key] = len(h.Changes)
			h.Changes = append(h.Changes, c)
			continue
		}
		o := &h.Changes[at]
		o.Amount = o.Amount.Add(c.Amount)
	}
	h.Changes = slices.DeleteFunc(h.Changes, func(c Change) bool { return c.Amount.CPU == 0 && c.Amount.Memory == 0 })
}

// trim keeps the bounds. If the clock has jumped, days in the future are removed before old ones.
func (h *History) trim(today Day) {
	for len(h.Days) > MostDays {
		if last := len(h.Days) - 1; h.Days[last].Day > today {
			h.Days = h.Days[:last]
			continue
		}
		h.Days = slices.Delete(h.Days, 0, 1)
	}
	h.Changes = slices.DeleteFunc(h.Changes, func(c Change) bool { return c.Day <= today-GrowthDays })
	if len(h.Changes) > 4*MostChanges { // sorting each time is not needed
		h.Changes = LargestChanges(h.Changes, MostChanges)
	}
}

// LargestChanges returns the n changes with the largest amounts, sorted by day.
func LargestChanges(all []Change, n int) []Change {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(weight(b.Amount), weight(a.Amount)) })
	out = slices.Clone(out[:min(n, len(out))]) // does not keep the memory of the others
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), a.Workload.Compare(b.Workload), cmp.Compare(slices.Index(Causes, a.Cause), slices.Index(Causes, b.Cause)))
	})
	return out
}

// weight compares amounts of both resources: a core weighs as much as 4 GiB, the usual relation of machines.
func weight(r cluster.Resources) float64 {
	const core, gib = 1000, 1 << 30
	return max(math.Abs(float64(r.CPU)/core), math.Abs(float64(r.Memory)/(4*gib)))
}

// Last returns the last day with values until today, 0 if there is none. Later days are from before the clock was set back.
func (h *History) Last(today Day) Day {
	for i := len(h.Days) - 1; i >= 0; i-- {
		if h.Days[i].Day <= today {
			return h.Days[i].Day
		}
	}
	return 0
}

// Points returns the values of a resource for a forecast.
func (h *History) Points(res cluster.Resource) []Point {
	var out []Point
	for _, r := range h.Days {
		if v, ok := r.Requested.Get(res); ok {
			out = append(out, Point{r.Day, float64(v), float64(r.Capacity.Amount(res))})
		}
	}
	return out
}

// Steps returns the changes of a resource that are steps: workloads that arrived or left, or whose pods got other requests, if that changed
// the requests of the pool by at least 2 % of its capacity.
func (h *History) Steps(res cluster.Resource, capacity int64) []Step {
	sums := map[Day]float64{}
	for _, c := range h.Changes {
		v := float64(c.Amount.Amount(res))
		if c.Cause != Scaled && math.Abs(v) >= stepShare*float64(capacity) {
			sums[c.Day] += v
		}
	}
	return stepsOf(sums)
}

// Grown returns the growth of the last GrowthDays days, how much the daily maximum of a resource changed in them, and how many days these
// are. days is 0 if there is no earlier day to compare with.
func (h *History) Grown(res cluster.Resource, today Day) (g Growth, total int64, days int) {
	known := slices.DeleteFunc(slices.Clone(h.Days), func(r Record) bool {
		return r.Day <= today-GrowthDays || r.Day > today || !r.Requested.Has.Has(res)
	})
	if len(known) < 2 {
		return Growth{}, 0, 0
	}
	for _, r := range known[1:] {
		g = g.Add(r.Growth)
	}
	first := &known[0]
	last := &known[len(known)-1]
	return g, last.Requested.Amount(res) - first.Requested.Amount(res), int(last.Day - first.Day)
}

// Fill adds days that were read from elsewhere, such as Prometheus. Amounts that are known already are kept.
func (h *History) Fill(days []Record, today Day) {
	for _, r := range days {
		if r.Day >= today || r.Day <= 0 {
			continue
		}
		at, known := slices.BinarySearchFunc(h.Days, r.Day, func(x Record, d Day) int { return cmp.Compare(x.Day, d) })
		if !known {
			h.Days = slices.Insert(h.Days, at, r)
			continue
		}
		x := &h.Days[at]
		x.Requested, x.Capacity, x.Used = x.Requested.Or(r.Requested), x.Capacity.Or(r.Capacity), x.Used.Or(r.Used)
	}
	h.trim(today)
}
