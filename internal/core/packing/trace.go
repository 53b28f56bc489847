// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"maps"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
)

const (
	interval   = 300 // seconds
	daySeconds = 24 * 3600
	perDay     = daySeconds / interval
	hour       = 3600

	mostMissing = hour / interval // intervals without samples that have the usage of the one before
)

// A Trace is the usage and the requests of the workloads of a comparison by day, in UTC. Day 0 is that of the first sample.
type Trace struct {
	recommenders []recommend.Profile
	workloads    []*workload
	origin       int64 // start of day 0, in Unix seconds
	days         []int // on which a pod was measured, in order
}

// A workload has figures of its measured days only, apart from the peaks: they are after the learning days, and before the last, incomplete day.
type workload struct {
	name            string
	first           int                // first measured day
	peak            load               // largest usage of a pod
	pods            []map[int][]load   // by place of a pod and day: usage of the intervals
	has             cluster.Set        // resources with samples
	readings, alone int                // alone: more than an hour before the next one
	peaks           []map[int]float64  // by container and day: largest memory usage of a pod
	limits          []map[int]int64    // by container and day: memory limit by the highest usage, in bytes; 0: none
	requests        []map[int]requests // by recommender and day
}

// measured adds the measured days to a set, and returns the number of pods on them.
func (w *workload) measured(days map[int]bool) (pods int) {
	for _, pod := range w.pods {
		for day := range pod {
			days[day] = true
		}
		pods += min(1, len(pod))
	}
	return pods
}

// requests are those of a pod on one day.
type requests struct {
	start, most load
	memory      []float64 // at the start, by container
}

// Of prepares a comparison for packing. The usage of an interval is the largest memory and the mean CPU in it.
func Of(c *replay.Comparison) *Trace {
	origin := c.From.Unix() / daySeconds * daySeconds
	end := int((c.To.Unix() + hour - origin) / daySeconds)
	t := &Trace{recommenders: c.Recommenders, origin: origin, workloads: make([]*workload, len(c.Workloads))}
	all := map[int]bool{}
	for i := range c.Workloads {
		t.workloads[i] = workloadOf(&c.Workloads[i], origin, end, c.Learning)
		t.workloads[i].measured(all)
	}
	t.days = slices.Sorted(maps.Keys(all))
	return t
}

// workloadOf reads a workload up to the day end.
func workloadOf(r *replay.WorkloadResult, origin int64, end, learning int) *workload {
	place, most := places(r.Workload)
	w := &workload{
		name:     r.Key.String(),
		first:    int((r.Samples[0].At-origin+daySeconds-1)/daySeconds) + learning,
		pods:     make([]map[int][]load, most),
		peaks:    make([]map[int]float64, len(r.Containers)),
		limits:   replay.MemoryLimits(r.Workload, origin),
		requests: make([]map[int]requests, len(r.Changes)),
	}
	for p := range w.pods {
		w.pods[p] = map[int][]load{}
	}
	for c := range w.peaks {
		w.peaks[c] = map[int]float64{}
	}
	w.read(r.Workload, place, origin, end)
	for _, pod := range w.pods {
		maps.DeleteFunc(pod, func(day int, _ []load) bool { return day < w.first })
	}
	days := map[int]bool{}
	w.measured(days)
	for k, changes := range r.Changes {
		w.requests[k] = requestsOf(changes, len(r.Containers), origin, slices.Sorted(maps.Keys(days)))
	}
	return w
}

// places returns the place of each pod, and the number of places: as many as pods ran at the same time. A pod takes the place of one that has ended, so
// that pods of a rollout or of a Job that ran one after another are packed as one.
func places(of *replay.Workload) (place []int, most int) {
	place = make([]int, len(of.Pods))
	last := make([]int64, len(of.Pods)) // interval of the last sample
	for i := range of.Samples {
		s := &of.Samples[i]
		last[s.Pod], place[s.Pod] = s.At/interval, -1
	}
	var until []int64 // by place
	for i := range of.Samples {
		s := &of.Samples[i]
		if place[s.Pod] >= 0 {
			continue
		}
		k := slices.IndexFunc(until, func(end int64) bool { return end < s.At/interval })
		if k < 0 {
			k = len(until)
			until = append(until, 0)
		}
		place[s.Pod], until[k] = k, last[s.Pod]
	}
	return place, len(until)
}

// A reading is the usage of a container of a pod in one interval, of one resource.
type reading struct {
	at, samples int // index of the interval since day 0
	load
}

// read adds up the usage of the containers of each pod. place is that of each pod.
func (w *workload) read(of *replay.Workload, place []int, origin int64, end int) {
	type key struct {
		pod       int32
		container int16
		of        cluster.Resource
	}
	last := map[key]*reading{}
	for i := range of.Samples {
		s := &of.Samples[i]
		at := int((s.At - origin) / interval)
		if day := at / perDay; day < end && s.Has.Has(cluster.Memory) {
			w.peaks[s.Container][day] = max(w.peaks[s.Container][day], s.Memory)
		}
		for _, res := range cluster.All {
			if !s.Has.Has(res) {
				continue
			}
			k := key{s.Pod, s.Container, res}
			r := last[k]
			if r == nil {
				r = &reading{at: at}
				last[k] = r
			}
			if at > r.at {
				w.add(place[k.pod], k.of, r, at, end)
				*r = reading{at: at}
			}
			r.samples++
			if res == cluster.CPU {
				r.cpu += s.CPU
			} else {
				r.memory = max(r.memory, s.Memory)
			}
		}
	}
	for k, r := range last {
		w.add(place[k.pod], k.of, r, r.at+1, end)
	}
}

// add adds a reading to its interval, and to those without samples up to the next one if they are few.
func (w *workload) add(place int, res cluster.Resource, r *reading, next, end int) {
	w.readings++
	if next-r.at > mostMissing+1 {
		next = r.at + 1
		w.alone++
	}
	mean := load{r.cpu / float64(r.samples), r.memory}
	for ; r.at < next && r.at/perDay < end; r.at++ {
		day := w.pods[place][r.at/perDay]
		if day == nil {
			day = make([]load, perDay)
			w.pods[place][r.at/perDay] = day
		}
		sum := day[r.at%perDay].plus(mean)
		day[r.at%perDay] = sum
		w.peak = load{max(w.peak.cpu, sum.cpu), max(w.peak.memory, sum.memory)}
		if r.at/perDay >= w.first {
			w.has = w.has.With(res)
		}
	}
}

// requestsOf returns the requests of some days. changes are sorted by time.
func requestsOf(changes []replay.Change, containers int, origin int64, days []int) map[int]requests {
	now := make([]load, containers)
	sum := func() (all load) {
		for _, c := range now {
			all = all.plus(c)
		}
		return all
	}
	out := map[int]requests{}
	i := 0
	for _, day := range days {
		start := origin + int64(day)*daySeconds
		var r requests
		apply := func(before int64) {
			for ; i < len(changes) && changes[i].At < before; i++ {
				if c := &changes[i]; c.Resource == cluster.CPU {
					now[c.Container].cpu = float64(c.Request) / 1000
				} else {
					now[c.Container].memory = float64(c.Request)
				}
				all := sum()
				r.most = load{max(r.most.cpu, all.cpu), max(r.most.memory, all.memory)}
			}
		}
		apply(start)
		r = requests{start: sum(), most: sum(), memory: cluster.Each(now, func(l *load) float64 { return l.memory })}
		apply(start + daySeconds)
		out[day] = r
	}
	return out
}
