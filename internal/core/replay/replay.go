// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay runs recorded usage through the code that runs in a cluster, measures the results and ranks them: the
// samples go into a usage.Store, a recommend.Profile recommends, package policy applies bounds, and package plan decides
// when a pod is changed.
//
// A decision uses only samples from before the minute in which it is made. The result depends only on the trace and the
// options. The package does no I/O. Run replays one workload with one profile, so that callers can run several at a time.
package replay

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

const (
	minute = 60
	silent = 24 * 3600 // how long passes continue without samples, in seconds
)

// Run replays a workload with a profile, in the update mode of the profile and with upstream's thresholds, and returns the changes of
// requests, sorted by time. With mode Off there are none.
//
// The recommender and the updater run at the end of every minute with samples and, for a day after such a minute, every
// hour. Therefore a decision does not depend on whether samples follow.
func Run(w *Workload, p recommend.Profile) []Change {
	if len(w.Samples) == 0 {
		return nil
	}
	r := newRun(w, p)
	for range r.passes() {
		continue // a pass records its changes
	}
	return r.changes
}

// Advice replays a workload with a profile and yields the time and the recommendation of each pass of the recommender.
func Advice(w *Workload, p recommend.Profile) iter.Seq2[time.Time, []cluster.Advice] {
	return newRun(w, p).passes()
}

// MemoryLimits returns the memory limit by the highest usage (recommend.MemoryLimit) at the start of each day with samples, in bytes, by container and
// day. It is 0 while no usage is known. Days are those since origin, in Unix seconds.
func MemoryLimits(w *Workload, origin int64) []map[int]int64 {
	profile, _ := recommend.Builtin("balanced") // its model state has the peaks of 14 days
	state := newRun(w, profile)
	out := make([]map[int]int64, len(w.Containers))
	for c := range out {
		out[c] = map[int]int64{}
	}
	last := -1
	for i := range w.Samples {
		if day := int((w.Samples[i].At - origin) / daySeconds); day != last {
			for c, name := range w.Containers {
				if history := state.book.Series(w.Key, name); history != nil {
					out[c][day] = recommend.MemoryLimit(history, out[c][last], 0, 0, 0, time.Unix(origin+int64(day)*daySeconds, 0))
				}
			}
			last = day
		}
		state.addContainers(w.Samples[i : i+1])
		state.observe(&w.Samples[i])
	}
	return out
}

// passes runs the passes of the recommender and the updater, and yields the time and the recommendation of each.
func (r *run) passes() iter.Seq2[time.Time, []cluster.Advice] {
	return func(yield func(time.Time, []cluster.Advice) bool) {
		w := r.w
		for i := 0; i < len(w.Samples); {
			now := (w.Samples[i].At/minute + 1) * minute
			from := i
			for i < len(w.Samples) && w.Samples[i].At < now {
				i++
			}
			r.addContainers(w.Samples[from:i])
			for k := range w.Samples[from:i] {
				r.observe(&w.Samples[from+k])
			}
			next := now + silent
			if i < len(w.Samples) {
				next = min(next, w.Samples[i].At)
			}
			for ; now <= next; now = (now/3600 + 1) * 3600 {
				at := time.Unix(now, 0).UTC()
				if !yield(at, r.decide(at)) {
					return
				}
			}
		}
	}
}

type run struct {
	w       *Workload
	profile recommend.Profile
	budget  plan.Budget
	book    *usage.Store
	a       *cluster.Autoscaler
	pod     *cluster.Pod // represents all pods of the workload, which have equal requests; has only containers seen so far
	world   plan.World
	tracked []bool    // pods with samples so far
	started []int64   // Unix seconds of the start of each pod, if the trace shows it; else 0
	idle    time.Time // no pod changes before this time while the advice is unchanged
	changes []Change
}

func newRun(workload *Workload, profile recommend.Profile) *run {
	state := &run{
		w: workload, profile: profile, budget: plan.DefaultBudget(),
		book:    usage.NewStore(usage.DefaultConfig()),
		tracked: make([]bool, len(workload.Pods)),
		started: make([]int64, len(workload.Pods)),
	}
	state.budget.MinReplicas = 1 // traces do not have replica counts, so these never prevent a change
	state.budget.SkipInPlace = true
	key := cluster.Key{Namespace: workload.Key.Namespace, Name: workload.Key.Name}
	state.a = &cluster.Autoscaler{Key: key, Target: workload.Key, Mode: profile.Mode, Recommender: profile.Name}
	state.pod = state.podNamed(key, nil, time.Unix(workload.Samples[0].At, 0).UTC())
	state.book.Configure(workload.Key, nil)
	if profile.Extend != nil {
		state.book.Extend(workload.Key, profile.Extend)
	}
	state.world = plan.World{
		Governed: []cluster.Governed{{Autoscaler: state.a, Pods: []*cluster.Pod{state.pod}}},
		Scales:   map[cluster.Workload]cluster.Scale{workload.Key: {Replicas: 1, Known: true}},
	}
	return state
}

func (r *run) podNamed(key cluster.Key, containers []cluster.Container, start time.Time) *cluster.Pod {
	return &cluster.Pod{
		Key: key, UID: key.Namespace + "/" + key.Name, Controller: r.w.Key, Top: r.w.Key, Node: "node",
		Created: start, Started: start, ReadySince: start, Ready: true,
		Phase: cluster.Running, QoS: cluster.Burstable, Containers: containers,
	}
}

// addContainers adds the containers of samples to the pod. Containers without samples so far must not be in the pod: each
// container has a share of a pod's minimum size, so decisions would depend on later samples.
func (r *run) addContainers(samples []Sample) {
	before := len(r.pod.Containers)
	for i := range samples {
		c := uint8(samples[i].Container)
		at, known := slices.BinarySearchFunc(r.pod.Containers, c, func(x cluster.Container, index uint8) int {
			return cmp.Compare(x.Index, index)
		})
		if !known {
			r.pod.Containers = slices.Insert(r.pod.Containers, at, cluster.Container{Name: r.w.Containers[c], Index: c})
		}
	}
	if len(r.pod.Containers) == before {
		return
	}
	r.trackAll(time.Unix(samples[0].At, 0).UTC())
}

// observe adds a sample. Memory above the limit is also an OOM kill: above the request, unless limits are apart from requests. If they are kept, a trace
// does not have them, so no kill is known.
func (r *run) observe(sample *Sample) {
	key := r.w.podKey(sample.Pod)
	at := time.Unix(sample.At, 0).UTC()
	if !r.tracked[sample.Pod] {
		r.tracked[sample.Pod] = true
		if sample.At-r.w.Samples[0].At > int64(usage.KnownStart/time.Second) { // a trace does not contain restarts of containers
			r.started[sample.Pod] = sample.At
		}
		r.track(sample.Pod, at)
	}
	name := r.w.Containers[sample.Container]
	request, ok := r.pod.Container(name).Requests.Get(cluster.Memory)
	isAbove := ok && sample.Has.Has(cluster.Memory) && sample.Memory > float64(request)
	limit := int64(0) // apart from the request
	if history := r.book.Series(r.w.Key, name); isAbove && history != nil && r.profile.MemoryLimits.Peaks {
		limit = recommend.MemoryLimit(history, 0, 0, 0, 0, at)
	}
	r.book.Observe(usage.Sample{Pod: key, Container: name, At: at, CPU: wholeMillicores(sample.CPU), Memory: sample.Memory, Has: sample.Has})
	if isAbove && sample.Memory > float64(limit) && !r.profile.MemoryLimits.Keep {
		r.book.ObserveOOM(usage.OOM{Pod: key, Container: name, At: at, Memory: request, Limit: limit})
	}
}

// wholeMillicores rounds cores up to millicores, like edge/metrics does for samples of the Metrics API. Measure uses the
// samples without rounding.
func wholeMillicores(cores float64) float64 {
	const precision = 1e-12 // relative; in floating point, 16.1 cores are 16100.000000000002 millicores
	return math.Ceil(cores*1000*(1-precision)) / 1000
}

// track adds a pod with its current requests to the usage history.
func (r *run) track(pod int32, at time.Time) {
	p := r.podNamed(r.w.podKey(pod), slices.Clone(r.pod.Containers), at)
	if started := r.started[pod]; started > 0 {
		p.Started = time.Unix(started, 0).UTC()
		for i := range p.Containers {
			p.Containers[i].Delay = p.DelayOf(started)
		}
	}
	r.book.Track(p)
}

// trackAll adds all pods that have samples so far to the usage history.
func (r *run) trackAll(at time.Time) {
	for i, tracked := range r.tracked {
		if tracked {
			r.track(int32(i), at)
		}
	}
	r.idle = time.Time{}
}

// decide runs one pass of the recommender and one of the updater, and returns the recommendation.
func (r *run) decide(now time.Time) []cluster.Advice {
	advice := recommend.Workload(r.profile.Params, r.profile.Estimator, r.book, r.a, r.w.Key, now)
	advice = policy.Cap(r.a, advice, cluster.Resources{}, cluster.NodeShare{})
	if !slices.EqualFunc(advice, r.a.Advice, cluster.Advice.Equal) {
		r.a.Advice = advice
		r.idle = time.Time{}
	}
	if now.Before(r.idle) {
		return advice
	}
	// While the advice is unchanged, a pod that is left alone stays so until the end of the wait in the decision.
	r.idle = now.Add(1000 * time.Hour)
	for _, d := range plan.Plan(now, r.world, r.budget) {
		if d.Do == decision.Leave {
			if !d.Reason.Until.IsZero() {
				r.idle = d.Reason.Until
			}
			continue
		}
		r.apply(d, now)
	}
	return advice
}

// apply changes the requests of the pods.
func (r *run) apply(d decision.Decision, now time.Time) {
	for x := range change.Pairs(r.pod, d.With, true) {
		if !x.Limit && !(x.Had && x.From == x.To) {
			x.Container.Requests = x.Container.Requests.Set(x.Resource, x.To)
			r.changes = append(r.changes, Change{At: now.Unix(), Container: int16(x.Container.Index), Resource: x.Resource, Request: x.To})
		}
	}
	if d.Do == decision.Evict {
		r.pod.Started = now
		r.pod.Created = now
	}
	r.trackAll(now)
}
