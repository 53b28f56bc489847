// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

const daySeconds = 24 * 3600

// DefaultLearning is the number of days at the start of a container's history that are not measured, unless Prepare gets another
// number. A recommender needs them to learn the container's usage.
const DefaultLearning = 8

// A Day is the figures of one resource of one container on one day. Amounts are in cores or bytes.
type Day struct {
	Number  int     // days since the first sample of the container
	Mean    float64 // mean request of a pod over the day; a time without a request counts as 0
	Pods    float64 // mean number of pods
	P95     float64 // 95th percentile of the samples
	Samples int
	Above   int     // samples above the request
	Events  int     // runs of consecutive samples of a pod above the request; for memory: OOM kills, if each kill raised the request
	Over    float64 // sum of usage above the request, over the samples
	Used    float64 // sum of usage, over the samples
	Changes int     // changes of the request
}

// Slack is (mean request − 95th percentile of usage) / the larger of the two. If the request is larger, this is the
// relative slack of Autopilot (Rzadca et al. 2020, 4.1.1). That has no lower bound, so one container with almost no
// request would dominate the mean of all containers; this one is between −1 (nothing requested) and 1 (nothing used). It is
// 0 if nothing is requested or used.
func (d Day) Slack() float64 {
	larger := max(d.Mean, d.P95)
	if larger <= 0 {
		return 0
	}
	return (d.Mean - d.P95) / larger
}

// containerUsage is the samples of one resource of one container, split into days. It does not depend on requests.
type containerUsage struct {
	readings []reading
	first    int64 // time of the first sample of the container, of any resource
	days     []daySamples
	pods     *pods // of the container
}

// A reading is a sample of one resource, in cores or bytes.
type reading struct {
	at   int64
	used float64
	pod  int32 // index into the Workload's Pods
}

// daySamples is the samples of one day: those with index from from to before to.
type daySamples struct {
	number, from, to int
	p95              float64
	length           int64 // measured seconds of the day
}

type usageKey struct {
	container int16
	resource  cluster.Resource
}

// Usage is the samples of a workload, prepared for measuring. Call Prepare once, and Measure for each profile.
type Usage struct {
	workload *Workload
	learning int // days at the start that are not measured
	byKey    map[usageKey]*containerUsage
}

// Prepare groups the samples of a workload by container, resource and day. The first days of each container, learning of them, are not
// measured.
func Prepare(workload *Workload, learning int) *Usage {
	usage := &Usage{workload: workload, learning: learning}
	replicas := podsOf(workload)
	first := make([]int64, len(workload.Containers))
	last := make([]int64, len(workload.Containers))
	for i := range workload.Samples {
		sample := &workload.Samples[i]
		first[sample.Container] = cmp.Or(first[sample.Container], sample.At)
		last[sample.Container] = sample.At
		for _, resource := range cluster.All {
			if !sample.Has.Has(resource) {
				continue
			}
			key := usageKey{sample.Container, resource}
			samples := cluster.Memo(&usage.byKey, key, func() *containerUsage {
				return &containerUsage{first: first[key.container], pods: &replicas[key.container]}
			})
			samples.readings = append(samples.readings, reading{sample.At, sample.Used(resource), sample.Pod})
		}
	}
	for key, samples := range usage.byKey {
		samples.split(last[key.container])
	}
	return usage
}

// FullDays returns the number of full days of the container with the longest history, learning days included.
func (u *Usage) FullDays() int {
	most := 0
	for _, samples := range u.byKey {
		if n := len(samples.days); n > 0 {
			most = max(most, samples.days[n-1].number+1)
		}
	}
	return most
}

// fullDay is how many seconds of a day must be before the last sample of the container for the day to count. The last
// sample of a full day is before midnight by the sampling interval, so an hour is tolerated.
const fullDay = daySeconds - 3600

// split finds the days. The day of the last sample counts only if it is complete.
func (c *containerUsage) split(last int64) {
	var sorted []float64
	for from := 0; from < len(c.readings); {
		number := (c.readings[from].at - c.first) / daySeconds
		start := c.first + number*daySeconds
		sorted = sorted[:0]
		to := from
		for ; to < len(c.readings) && c.readings[to].at < start+daySeconds; to++ {
			sorted = append(sorted, c.readings[to].used)
		}
		if last-start+1 < fullDay {
			return
		}
		slices.Sort(sorted)
		c.days = append(c.days, daySamples{
			number: int(number), from: from, to: to,
			p95:    sorted[int(math.Ceil(0.95*float64(len(sorted))))-1], // the smallest value that 95 % do not exceed
			length: min(daySeconds, last-start+1),
		})
		from = to
	}
}

// A Score is the figures of one resource of one container.
type Score struct {
	Container int16
	Resource  cluster.Resource
	Days      []Day   // after the learning days
	Footprint float64 // mean request of all pods together, over the measured days, in cores or bytes
	Pods      float64 // mean number of pods, over the measured days
}

// Measure compares requests with the usage. It returns one Score per container and resource with samples, sorted by
// container, CPU before memory. The changes are those that Run returns.
func (u *Usage) Measure(changes []Change) []Score {
	var out []Score
	for container := range int16(len(u.workload.Containers)) {
		for _, resource := range cluster.All {
			samples := u.byKey[usageKey{container, resource}]
			if samples == nil {
				continue
			}
			score := Score{Container: container, Resource: resource}
			score.Days, score.Footprint, score.Pods = samples.measure(ChangesOf(changes, int(container), resource), resource, u)
			out = append(out, score)
		}
	}
	return out
}

// measure returns the days, and over these the mean request of all pods together and the mean number of pods.
func (c *containerUsage) measure(changes []Change, resource cluster.Resource, u *Usage) (days []Day, footprint, pods float64) {
	m := meter{usage: c, changes: changes, unit: cluster.Pick(resource, 0.001, 1), wasAbove: make([]bool, len(u.workload.Pods))}
	length := 0.0
	for _, samples := range c.days {
		if samples.number < u.learning {
			continue
		}
		days = append(days, m.day(samples))
		length += float64(samples.length)
	}
	if length == 0 {
		return days, 0, 0
	}
	return days, m.podRequestSeconds / length, m.podSeconds / length
}

// A meter measures the days of one containerUsage in order.
type meter struct {
	usage             *containerUsage
	changes           []Change
	unit              float64 // of requests, in cores or bytes
	wasAbove          []bool  // by pod: the last sample of the day was above the request
	next              int     // index of the first change that is not yet effective
	podRequestSeconds float64 // request × pods, integrated over the measured days
	podSeconds        float64 // pods, integrated over the measured days
}

func (m *meter) request() float64 {
	if m.next == 0 {
		return 0
	}
	return float64(m.changes[m.next-1].Request) * m.unit
}

func (m *meter) day(samples daySamples) Day {
	start := m.usage.first + int64(samples.number)*daySeconds
	end := start + samples.length
	for m.next < len(m.changes) && m.changes[m.next].At < start {
		m.next++
	}
	day := Day{Number: samples.number, P95: samples.p95, Samples: samples.to - samples.from}
	now := start
	requestSeconds := 0.0
	advance := func(to int64) { // the request is constant until then
		requestSeconds += m.request() * float64(to-now)
		m.podRequestSeconds += m.request() * m.usage.pods.seconds(now, to)
		now = to
	}
	applyChange := func() {
		advance(m.changes[m.next].At)
		m.next++
		day.Changes++
	}
	clear(m.wasAbove)
	for _, r := range m.usage.readings[samples.from:samples.to] {
		for m.next < len(m.changes) && m.changes[m.next].At <= r.at {
			applyChange()
		}
		day.Used += r.used
		over := r.used - m.request()
		isAbove := over > 0
		if isAbove {
			day.Above++
			day.Over += over
		}
		if isAbove && !m.wasAbove[r.pod] {
			day.Events++
		}
		m.wasAbove[r.pod] = isAbove
	}
	for m.next < len(m.changes) && m.changes[m.next].At < end {
		applyChange()
	}
	advance(end)
	day.Mean = requestSeconds / float64(samples.length)
	podSeconds := m.usage.pods.seconds(start, end)
	day.Pods = podSeconds / float64(samples.length)
	m.podSeconds += podSeconds
	return day
}
