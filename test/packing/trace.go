// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

const (
	interval   = 300 // seconds
	daySeconds = 24 * 3600
	perDay     = daySeconds / interval

	mostMissing = 2 // intervals without samples that have the usage of the one before
)

// A Trace is the usage and the requests of the workloads of a comparison by day, in UTC. Day 0 is that of the first sample.
type Trace struct {
	recommenders int
	workloads    []*workload
	from, days   int // the measured days: after the learning days, without the last, incomplete one
}

type workload struct {
	name     string
	first    int          // first measured day
	peak     load         // largest usage of a pod
	pods     [][][]load   // by pod and day: usage of the intervals; nil without samples
	peaks    [][]float64  // by container and day: largest memory usage of a pod
	requests [][]requests // by recommender and day
}

// requests are those of a pod on one day.
type requests struct {
	start, most load
	memory      []float64 // at the start, by container
}

// Of prepares a comparison for packing. The usage of an interval is the largest memory and the mean CPU in it.
func Of(c *replay.Comparison) *Trace {
	origin := c.From.Unix() / daySeconds * daySeconds
	t := &Trace{
		recommenders: len(c.Recommenders),
		days:         int((c.To.Unix() + interval - origin) / daySeconds),
		workloads:    make([]*workload, len(c.Workloads)),
	}
	t.from = t.days
	for i := range c.Workloads {
		t.workloads[i] = workloadOf(&c.Workloads[i], origin, t.days, c.Learning)
		t.from = min(t.from, t.workloads[i].first)
	}
	return t
}

func workloadOf(r *replay.WorkloadResult, origin int64, days, learning int) *workload {
	w := &workload{
		name:     r.Key.String(),
		first:    int((r.Samples[0].At-origin+daySeconds-1)/daySeconds) + learning,
		pods:     make([][][]load, len(r.Workload.Pods)),
		peaks:    make([][]float64, len(r.Containers)),
		requests: make([][]requests, len(r.Changes)),
	}
	for p := range w.pods {
		w.pods[p] = make([][]load, days)
	}
	for c := range w.peaks {
		w.peaks[c] = make([]float64, days)
	}
	w.read(r.Workload, origin, days)
	for k, changes := range r.Changes {
		w.requests[k] = requestsOf(changes, len(r.Containers), origin, days)
	}
	return w
}

// A reading is the usage of a container of a pod in one interval.
type reading struct {
	at, samples int // index of the interval since day 0
	load
}

// read adds up the usage of the containers of each pod.
func (w *workload) read(of *replay.Workload, origin int64, days int) {
	type key struct {
		pod       int32
		container int16
	}
	last := map[key]*reading{}
	for i := range of.Samples {
		s := &of.Samples[i]
		k, at := key{s.Pod, s.Container}, int((s.At-origin)/interval)
		if day := at / perDay; day < days && s.Has.Has(cluster.Memory) {
			w.peaks[s.Container][day] = max(w.peaks[s.Container][day], s.Memory)
		}
		r := last[k]
		if r == nil {
			r = &reading{at: at}
			last[k] = r
		}
		if at > r.at {
			w.add(k.pod, r, at)
			*r = reading{at: at}
		}
		r.samples++
		r.cpu += s.CPU
		r.memory = max(r.memory, s.Memory)
	}
	for k, r := range last {
		w.add(k.pod, r, r.at+1)
	}
}

// add adds a reading to its interval, and to those without samples up to the next one if they are few.
func (w *workload) add(pod int32, r *reading, next int) {
	if next-r.at > mostMissing+1 {
		next = r.at + 1
	}
	mean := load{r.cpu / float64(r.samples), r.memory}
	for ; r.at < next && r.at/perDay < len(w.pods[pod]); r.at++ {
		day := &w.pods[pod][r.at/perDay]
		if *day == nil {
			*day = make([]load, perDay)
		}
		sum := (*day)[r.at%perDay].plus(mean)
		(*day)[r.at%perDay] = sum
		w.peak = load{max(w.peak.cpu, sum.cpu), max(w.peak.memory, sum.memory)}
	}
}

// requestsOf returns the requests of each day. changes are sorted by time.
func requestsOf(changes []replay.Change, containers int, origin int64, days int) []requests {
	now := make([]load, containers)
	sum := func() (all load) {
		for _, c := range now {
			all = all.plus(c)
		}
		return all
	}
	out := make([]requests, days)
	for day, i := 0, 0; day < days; day++ {
		start := origin + int64(day)*daySeconds
		apply := func(before int64) {
			for ; i < len(changes) && changes[i].At < before; i++ {
				if c := &changes[i]; c.Resource == cluster.CPU {
					now[c.Container].cpu = float64(c.Request) / 1000
				} else {
					now[c.Container].memory = float64(c.Request)
				}
				if start < before {
					all := sum()
					out[day].most = load{max(out[day].most.cpu, all.cpu), max(out[day].most.memory, all.memory)}
				}
			}
		}
		apply(start)
		out[day] = requests{start: sum(), most: sum(), memory: cluster.Each(now, func(l *load) float64 { return l.memory })}
		apply(start + daySeconds)
	}
	return out
}
