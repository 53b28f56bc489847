// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A NodeHour is what was requested on a node at a time of the past, and its capacity.
type NodeHour struct {
	At        time.Time
	Node      string // "" for pods without a node
	Requested cluster.Resources
	Capacity  cluster.Resources
}

// Collect returns the daily records of each pool. The pool of a node that exists no more is not known, unless there is only one pool. A day
// on which much was requested on such nodes is left out, because the sums of all pools would be too low.
func Collect(hours []NodeHour, nodes []cluster.Node, rules *Rules) map[string][]Record {
	names := rules.Assign(nodes)
	poolOf := make(map[string]string, len(nodes))
	for i := range nodes {
		poolOf[nodes[i].Name] = names[i]
	}
	pools := slices.Compact(slices.Sorted(slices.Values(names)))
	hours = slices.Clone(hours)
	slices.SortStableFunc(hours, func(a, b NodeHour) int { return a.At.Compare(b.At) })
	out := map[string][]Record{}
	left := map[Day]bool{}
	for len(hours) > 0 {
		n := slices.IndexFunc(hours, func(h NodeHour) bool { return !h.At.Equal(hours[0].At) })
		if n < 0 {
			n = len(hours)
		}
		sums, complete := sumsOf(hours[:n], poolOf, pools)
		day := DayOf(hours[0].At)
		left[day] = left[day] || !complete
		for name, sum := range sums {
			out[name] = addTo(out[name], day, &sum)
		}
		hours = hours[n:]
	}
	for name := range out {
		out[name] = slices.DeleteFunc(out[name], func(r Record) bool { return left[r.Day] || r.Requested.Has.Empty() })
		slices.SortFunc(out[name], func(a, b Record) int { return cmp.Compare(a.Day, b.Day) })
	}
	return out
}

// sumsOf returns the sums of one time by pool, and whether the pool of nearly all requests is known.
func sumsOf(hours []NodeHour, poolOf map[string]string, pools []string) (sums map[string]Record, complete bool) {
	const mostUnknown = 0.05 // the share of requests on nodes whose pool is not known above which a day is left out
	sums = map[string]Record{}
	var total, unknown cluster.Resources
	for _, h := range hours {
		total = total.Add(h.Requested)
		name, known := poolOf[h.Node]
		if !known && len(pools) == 1 {
			name, known = pools[0], true
		}
		if !known {
			unknown = unknown.Add(h.Requested)
			continue
		}
		r := sums[name]
		r.Requested, r.Capacity = r.Requested.Add(h.Requested), r.Capacity.Add(h.Capacity)
		sums[name] = r
	}
	for _, res := range cluster.All {
		if float64(unknown.Amount(res)) > mostUnknown*float64(total.Amount(res)) {
			return sums, false
		}
	}
	return sums, true
}

// addTo adds the sums of one time to the records of a pool: the highest requests and the last capacity of a day count.
func addTo(records []Record, day Day, sum *Record) []Record {
	if n := len(records); n == 0 || records[n-1].Day != day {
		records = append(records, Record{Day: day})
	}
	r := &records[len(records)-1]
	r.Requested = r.Requested.Highest(sum.Requested)
	r.Capacity = sum.Capacity.Or(r.Capacity)
	return records
}
