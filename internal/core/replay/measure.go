// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

const daySeconds = 24 * 3600

// Learning is how many days of a container are not measured, as nobody can know a container from its first days.
const Learning = 8

// A Day is what came of one resource of one container on one of its days.
type Day struct {
	Number  int     // days since the container's first sample
	Mean    float64 // mean request of a pod over the time of the day; a time without a request counts as nothing requested
	Pods    float64 // mean number of pods
	P95     float64 // 95th percentile of the samples
	Samples int
	Above   int     // samples above the request
	Events  int     // runs of samples above the request: for memory, kills if each raised the request
	Over    float64 // sum over the samples of what was above the request
	Used    float64 // sum over the samples
	Changes int     // of the request
}

// Slack is (mean request − 95th percentile of usage) / the larger of the two. Where the request is larger this is Autopilot's
// relative slack (Rzadca et al. 2020, 4.1.1). That has no lower bound, so that one container with next to no request would decide the
// mean of all; this one lies between −1 (nothing is requested) and 1 (nothing is used). It is 0 when nothing is requested or used.
func (d Day) Slack() float64 {
	most := max(d.Mean, d.P95)
	if most <= 0 {
		return 0
	}
	return (d.Mean - d.P95) / most
}

// usageOf is what is the same whatever the requests are: the samples of one resource of one container, by day.
type usageOf struct {
	at    []int64
	value []float64
	first int64 // of the container, not of the resource
	days  []span
	pods  *pods // of the container
}

// span is one day's samples, from one place on and before another.
type span struct {
	number, from, to int
	p95              float64
	length           int64 // seconds of the day that count
}

// Usage is a workload's samples prepared for measuring. Prepare once, Measure for every profile.
type Usage struct {
	w    *Workload
	byID map[[2]int]*usageOf
}

// Prepare sorts a workload's samples by container, resource and day.
func Prepare(w *Workload) *Usage {
	u := &Usage{w: w, byID: map[[2]int]*usageOf{}}
	replicas := podsOf(w)
	first := make([]int64, len(w.Containers))
	last := make([]int64, len(w.Containers))
	count := make([][len(cluster.All)]int, len(w.Containers))
	for i := range w.Samples {
		s := &w.Samples[i]
		if first[s.Container] == 0 {
			first[s.Container] = s.At
		}
		last[s.Container] = s.At
		for n, r := range cluster.All {
			if s.Has.Has(r) {
				count[s.Container][n]++
			}
		}
	}
	for c := range w.Containers {
		for n := range cluster.All {
			if k := count[c][n]; k > 0 {
				u.byID[[2]int{c, n}] = &usageOf{at: make([]int64, 0, k), value: make([]float64, 0, k), first: first[c], pods: &replicas[c]}
			}
		}
	}
	for i := range w.Samples {
		s := &w.Samples[i]
		for n, r := range cluster.All {
			if !s.Has.Has(r) {
				continue
			}
			o := u.byID[[2]int{int(s.Container), n}]
			o.at = append(o.at, s.At)
			if r == cluster.CPU {
				o.value = append(o.value, s.CPU)
			} else {
				o.value = append(o.value, s.Memory)
			}
		}
	}
	for id, o := range u.byID {
		o.split(last[id[0]])
	}
	return u
}

// wholeDay is how much of a day has to be before the container's last sample for the day to count. A trace of whole days ends before
// midnight by the time between two samples.
const wholeDay = daySeconds - 3600

// split finds the days. The last one does not count if the samples of the container end before it does.
func (o *usageOf) split(last int64) {
	var sorted []float64
	for from := 0; from < len(o.at); {
		number := (o.at[from] - o.first) / daySeconds
		start := o.first + number*daySeconds
		to := from
		for to < len(o.at) && o.at[to] < start+daySeconds {
			to++
		}
		if last-start+1 < wholeDay {
			return
		}
		sorted = append(sorted[:0], o.value[from:to]...)
		slices.Sort(sorted)
		o.days = append(o.days, span{
			number: int(number), from: from, to: to,
			p95:    quantile(sorted, 0.95),
			length: min(daySeconds, last-start+1),
		})
		from = to
	}
}

// quantile returns the smallest value that a share of the values does not exceed. The values are sorted.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	n := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(n, 0), len(sorted)-1)]
}

// A Score is what came of one resource of one container.
type Score struct {
	Container int16
	Resource  cluster.Resource
	Days      []Day   // after the learning days
	Footprint float64 // mean over the days measured of what all pods request: cores or bytes
	Pods      float64 // mean number of pods over the days measured
}

// Measure returns how requests did against the usage: one Score for each container and resource that has samples, in
// the order of containers, CPU before memory. The changes are as Run returns them.
func (u *Usage) Measure(changes []Change) []Score {
	var out []Score
	for c := range u.w.Containers {
		for n, r := range cluster.All {
			o := u.byID[[2]int{c, n}]
			if o == nil {
				continue
			}
			var mine []Change
			for _, x := range changes {
				if int(x.Container) == c && x.Resource == r {
					mine = append(mine, x)
				}
			}
			s := Score{Container: int16(c), Resource: r}
			s.Days, s.Footprint, s.Pods = o.measure(mine, r)
			out = append(out, s)
		}
	}
	return out
}

// measure returns the days, and the means over them of what all pods request and of the number of pods.
func (o *usageOf) measure(changes []Change, r cluster.Resource) (days []Day, footprint, pods float64) {
	unit := 1.0
	if r == cluster.CPU {
		unit = 0.001
	}
	request := func(i int) float64 { // after the change before i
		if i == 0 {
			return 0
		}
		return float64(changes[i-1].Request) * unit
	}
	var area, podSeconds, length float64
	k := 0 // changes that hold
	for _, sp := range o.days {
		if sp.number < Learning {
			continue
		}
		start := o.first + int64(sp.number)*daySeconds
		end := start + sp.length
		for k < len(changes) && changes[k].At < start {
			k++
		}
		d := Day{Number: sp.number, P95: sp.p95, Samples: sp.to - sp.from}
		i, from, sum := k, start, 0.0
		until := func(to int64) { // the request stays until then
			sum += request(i) * float64(to-from)
			area += request(i) * o.pods.seconds(from, to)
			from = to
		}
		above := false
		for j := sp.from; j < sp.to; j++ {
			for i < len(changes) && changes[i].At <= o.at[j] {
				until(changes[i].At)
				i++
				d.Changes++
			}
			v := o.value[j]
			d.Used += v
			if over := v - request(i); over > 0 {
				d.Above++
				d.Over += over
				if !above {
					d.Events++
				}
				above = true
			} else {
				above = false
			}
		}
		for i < len(changes) && changes[i].At < end {
			until(changes[i].At)
			i++
			d.Changes++
		}
		until(end)
		d.Mean = sum / float64(sp.length)
		present := o.pods.seconds(start, end)
		d.Pods = present / float64(sp.length)
		podSeconds += present
		length += float64(sp.length)
		days = append(days, d)
	}
	if length == 0 {
		return days, 0, 0
	}
	return days, area / length, podSeconds / length
}
