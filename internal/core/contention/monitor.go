// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

const (
	// slotLength is the time over which usage is averaged.
	slotLength = 5 * time.Minute
	// Sustained is how long the average is above the request before that is a problem.
	Sustained = 30 * time.Minute
	// Margin is how far the average must be above the request, in millicores. Less is noise of small containers.
	Margin = 50
	// slotsSustained is Sustained in slots.
	slotsSustained = int64(Sustained / slotLength)
	// slotsCalm is the number of slots not above the request after which the problem has ended, so that a short pause does not end it.
	slotsCalm = 3
	// slotsGap is the longest gap without samples, in slots, that does not end the time above the request.
	slotsGap = 3
	// startUp is the longest time after the start of a container for which its usage counts as that of the start. It is the same in the alert
	// PodfitUsageAboveRequest.
	startUp = 45 * time.Minute
	// factor is how many times the median of the replicas one pod uses that differs from the others.
	factor = 3
	// mostGroups is the maximum number of containers of a workload that a result has. Pods of one workload can have different containers.
	mostGroups = 32
)

// A Monitor keeps the recent CPU usage of containers: a few dozen bytes for each, whatever the number of samples is. After a restart it is
// empty, so problems are found later.
type Monitor struct {
	slot    int64 // the present one; 0 before the first Tick
	since   int64 // the slot of the first sample without a long gap after it; 0 before it
	sampled int64 // the slot of the last sample
	pods    map[cluster.Key]*podUsage
}

type podUsage struct {
	uid        string
	containers []containerUsage
}

type containerUsage struct {
	name    string
	sum     float64 // cores, of the samples of slot
	count   int32
	request int32   // millicores, when the last slot ended
	mean    float64 // cores, of the last slot with samples; valid if known
	slot    int64   // of the last sample
	above   int64   // the first slot of the time above the request; 0: it is not above
	calm    int8    // slots not above since then
	known   bool
	lasting bool // it is or was above for Sustained, and slotsCalm have not passed since
}

// NewMonitor returns a Monitor without usage.
func NewMonitor() *Monitor { return &Monitor{pods: map[cluster.Key]*podUsage{}} }

// Tick sets the present time. Without a Tick, samples are ignored.
func (m *Monitor) Tick(now time.Time) {
	slot := now.Unix() / int64(slotLength/time.Second)
	if slot < m.slot { // the clock went back: what is in the future is not usable
		m.since = 0
		m.sampled = 0
		clear(m.pods)
	}
	m.slot = slot
}

// Warm reports whether the Monitor has found each problem that exists. It has not soon after its start, and after a time without samples.
func (m *Monitor) Warm() bool {
	return m.since > 0 && m.slot-m.since > slotsSustained && m.slot-m.sampled <= slotsGap
}

// Add adds a sample of the CPU usage of a container, in cores. Values that are no usage are ignored.
func (m *Monitor) Add(p *cluster.Pod, container string, cores float64) {
	c := p.Container(container)
	if m.slot <= 0 || c == nil || c.Role == cluster.Init || !(cores >= 0 && cores <= usage.MaxCores) {
		return
	}
	pod := m.pods[p.Key]
	if pod == nil || pod.uid != p.UID {
		pod = &podUsage{uid: p.UID}
		m.pods[p.Key] = pod
	}
	named := func(u *containerUsage) bool { return u.name == container }
	u := cluster.FindOrAdd(&pod.containers, named, containerUsage{name: c.Name, slot: m.slot})
	if m.since == 0 || m.slot-m.sampled > slotsGap {
		m.since = m.slot
	}
	m.sampled = m.slot
	u.advance(m.slot, requestOf(c))
	u.slot = m.slot
	u.sum += cores
	u.count++
}

// Keep forgets all pods that are not among the given ones.
func (m *Monitor) Keep(pods map[cluster.Key]*cluster.Pod) {
	maps.DeleteFunc(m.pods, func(key cluster.Key, u *podUsage) bool {
		p := pods[key]
		return p == nil || p.UID != u.uid || !p.Live()
	})
}

// of returns the usage of a container of a pod, nil if it is not known or the pod has ended.
func (m *Monitor) of(p *cluster.Pod, container string) *containerUsage {
	pod := m.pods[p.Key]
	if pod == nil || pod.uid != p.UID || !p.Live() {
		return nil
	}
	return cluster.Find(pod.containers, func(c *containerUsage) bool { return c.name == container })
}

// requestOf returns the running CPU request of a container in millicores.
func requestOf(c *cluster.Container) int64 {
	requests, _ := c.Running()
	return max(requests.Amount(cluster.CPU), 0)
}

// advance ends the slot of the last sample if it has passed, and compares its average with the request in millicores. After a long gap the
// container counts as new.
func (u *containerUsage) advance(slot, request int64) {
	if slot > u.slot && u.count > 0 {
		u.mean = u.sum / float64(u.count)
		u.known = true
		u.compare(request)
		u.sum = 0
		u.count = 0
	}
	if slot-u.slot > slotsGap {
		u.above = 0
		u.calm = 0
		u.known = false
		u.lasting = false
	}
}

// compare adds the slot that has just ended to the time above the request.
func (u *containerUsage) compare(request int64) {
	used := u.mean * 1000
	isRaised := request > int64(u.request) // if the usage is not above the new request, that solved the problem
	u.request = int32(min(request, math.MaxInt32))
	switch {
	case request > 0 && used > float64(request) && (u.lasting || used > float64(request+Margin)):
		u.above = cmp.Or(u.above, u.slot)
		u.calm = 0
	case u.lasting && u.calm < slotsCalm-1 && !(isRaised && used <= float64(request)):
		u.calm++
	default:
		u.above = 0
		u.calm = 0
		u.lasting = false
	}
	if u.above != 0 && u.slot-u.above+1 >= slotsSustained {
		u.lasting = true
	}
}

// An Excess is a container whose usage is above its request in one or more pods.
type Excess struct {
	Container string
	Pods      []*cluster.Pod // with the problem, in the order of the workload
	Replicas  int            // pods whose usage is known
	Worst     *cluster.Pod   // the one that uses most
	Usage     int64          // of Worst, millicores
	Request   int64          // of Worst, millicores
	Median    int64          // of all replicas, millicores
	Cause     Reason         // Starting, OneReplica, or "" if it is another one
}

// Excesses returns the containers of the live pods of a workload whose usage has been above the request for Sustained, sorted by name.
func (m *Monitor) Excesses(pods []*cluster.Pod, now time.Time) []Excess {
	var out []Excess
	for _, p := range pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			u := m.of(p, c.Name)
			if u == nil {
				continue
			}
			request := requestOf(c)
			u.advance(m.slot, request)
			if !u.lasting || request <= 0 || request > int64(u.request) && u.mean*1000 <= float64(request) {
				continue // it ended, or the request was removed, or raised to the usage since the last slot
			}
			e := cluster.Find(out, func(e *Excess) bool { return e.Container == c.Name })
			if e == nil && len(out) < mostGroups {
				out = append(out, Excess{Container: c.Name})
				e = &out[len(out)-1]
			}
			if e != nil {
				e.add(p, u, request)
			}
		}
	}
	for i := range out {
		m.judge(&out[i], pods, now)
	}
	slices.SortFunc(out, func(a, b Excess) int { return strings.Compare(a.Container, b.Container) })
	return out
}

func (e *Excess) add(p *cluster.Pod, u *containerUsage, request int64) {
	e.Pods = append(e.Pods, p)
	if used := int64(math.Round(u.mean * 1000)); e.Worst == nil || used > e.Usage {
		e.Worst = p
		e.Usage = used
		e.Request = request
	}
}

// judge sets the cause of an excess if it is one that follows from the usage of the replicas.
func (m *Monitor) judge(e *Excess, pods []*cluster.Pod, now time.Time) {
	var means []float64
	for _, p := range pods {
		if u := m.of(p, e.Container); u != nil && u.known {
			means = append(means, u.mean)
		}
	}
	e.Replicas = len(means)
	if e.Replicas == 0 {
		return
	}
	slices.Sort(means)
	median := means[(len(means)-1)/2] // of two replicas the lower one
	e.Median = int64(math.Round(median * 1000))
	starting, apart := true, true
	for _, p := range e.Pods {
		u := m.of(p, e.Container)
		started := startOf(p, p.Container(e.Container))
		starting = starting && !started.IsZero() && now.Sub(started) < startUp
		apart = apart && u.mean > factor*median
	}
	switch {
	case starting:
		e.Cause = Starting
	case apart && e.Replicas > 1 && 2*len(e.Pods) <= e.Replicas:
		e.Cause = OneReplica
	}
}

// startOf returns when a container started, or the time before that is known: the end of its last termination, or the start of its pod.
func startOf(p *cluster.Pod, c *cluster.Container) time.Time {
	started := cmp.Or(p.Started, p.Created)
	if c != nil && c.Exit != nil && c.Exit.Finished.After(started) {
		return c.Exit.Finished
	}
	return started
}
