// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// calm is how long after an OOM kill in a pod its memory is the sum of the targets of its containers. The memory that the killed container is given
// is then part of the pod-level request in full.
const calm = 8 * 24 * time.Hour

// wholeKey returns the key of what a pod uses as a whole. No pod has such a name.
func wholeKey(pod cluster.Key) cluster.Key {
	pod.Name += "/" + cluster.WholePod
	return pod
}

// HasWholePods reports whether a live pod has pod-level requests that several containers can share. A workload that has no live pod at present, such as one
// that is scaled to zero for the night, stays what it was: its history would be lost otherwise.
func (b *Book) HasWholePods(a *cluster.Autoscaler, pods []*cluster.Pod) bool {
	if before := b.workloads[a.Target]; before != nil && before.Whole && !slices.ContainsFunc(pods, (*cluster.Pod).Live) {
		return a.SharesHeadroom() && b.absence(a.Target.InGroup(cluster.WholePod)) <= gone
	}
	return a.SharesHeadroom() && slices.ContainsFunc(pods, func(p *cluster.Pod) bool {
		return p.Live() && p.PodLevel != nil && !p.PodLevel.Requests.Has.Empty() && len(running(p)) > 1
	})
}

// running returns the names of the containers that run at the same time.
func running(p *cluster.Pod) (names []string) {
	for i := range p.Containers {
		if p.Containers[i].Role != cluster.Init {
			names = append(names, p.Containers[i].Name)
		}
	}
	return names
}

// seriesOf returns the name of the history of pods with some containers. Pods with other containers have a history of their own, because it does not
// show what these need.
func seriesOf(containers []string) string {
	slices.Sort(containers)
	h := fnv.New64a()
	for _, name := range containers {
		h.Write([]byte(name + "/"))
	}
	return "pod-" + strconv.FormatUint(h.Sum64(), 36)
}

// trackWholes tracks the pods that are sized as a whole, and adds them to those that are seen and to the numbers of pods of the groups.
func (b *Book) trackWholes(seen map[cluster.Key]member, pods map[cluster.Workload]int) {
	b.sums = map[cluster.Key]*sum{}
	for target, w := range b.workloads {
		of := target.InGroup(cluster.WholePod)
		for _, p := range w.Pods {
			if w.Whole && b.trackWhole(of, p) {
				seen[wholeKey(p.Key)] = member{of: of}
				pods[of]++
			}
		}
	}
}

// trackWhole tracks a pod as one container, with the last OOM kill of a container that runs beside others, and returns whether it is tracked.
func (b *Book) trackWhole(of cluster.Workload, p *cluster.Pod) bool {
	own := *p
	own.Key, own.Top = wholeKey(p.Key), of
	names := running(p)
	whole := cluster.Container{Name: seriesOf(names), Requests: p.Requested()}
	for i := range p.Containers {
		if exit := p.Containers[i].Exit; exit != nil && exit.OOM && p.Containers[i].Role != cluster.Init && (whole.Exit == nil || exit.Finished.After(whole.Exit.Finished)) {
			whole.Exit = exit
		}
	}
	own.Containers = []cluster.Container{whole}
	if !b.Store.Track(&own) {
		return false
	}
	b.Store.ObserveExits(&own)
	b.sums[p.Key] = &sum{Sample: usage.Sample{Has: cluster.Both}, of: names, series: whole.Name}
	return true
}

// A sum is the usage of the containers of a pod in one pass.
type sum struct {
	usage.Sample
	first  time.Time // the earliest measurement
	n      int       // containers measured
	of     []string  // those that run
	series string
}

func (t *sum) add(s *usage.Sample) {
	t.n++
	t.CPU += s.CPU
	t.Memory += s.Memory
	t.Has &= s.Has
	if s.At.After(t.At) {
		t.At = s.At
	}
	t.first = cluster.Earliest(t.first, s.At)
}

// Observed adds what the pods used as a whole in this pass, of those whose containers were all measured at the same time.
func (b *Book) Observed() {
	for pod, t := range b.sums {
		if t.n == len(t.of) && t.At.Sub(t.first) < settled {
			t.Pod, t.Container = wholeKey(pod), t.series
			b.Store.Observe(t.Sample)
		}
		*t = sum{Sample: usage.Sample{Has: cluster.Both}, of: t.of, series: t.series}
	}
}

// Share sets the part that each container has of what a pod needs as a whole: the estimate for the sum of their usage, at least the largest target. While
// that is not known, no container has a part, and the pod gets the sum of the targets. After a restart without stored history, the parts in the status
// stay for the time that it takes to learn them again.
func (b *Book) Share(s *Sizing, all []cluster.Advice) []cluster.Advice {
	a := s.Autoscaler
	w := b.workloads[a.Target]
	if w == nil || !w.Whole || !a.SharesHeadroom() || slices.ContainsFunc(all, func(v cluster.Advice) bool { return len(v.Groups) > 0 }) {
		return all
	}
	whole := b.need(s, all)
	for _, res := range cluster.All {
		var sum, highest int64
		for i := range all {
			sum = integer.Sum(sum, all[i].Target.Amount(res))
			highest = max(highest, all[i].Target.Amount(res))
		}
		amount, known := whole.Get(res)
		if amount = max(amount, highest); !known || amount >= sum {
			continue
		}
		for i := range all {
			if target := all[i].Target.Amount(res); target > 0 {
				part, _ := integer.ScaledUp(target, amount, sum)
				all[i].Shared = all[i].Shared.Set(res, part)
			}
		}
	}
	return all
}

// need returns what a pod needs as a whole, as far as that is known.
func (b *Book) need(s *Sizing, all []cluster.Advice) (out cluster.Resources) {
	of := s.Autoscaler.Target.InGroup(cluster.WholePod)
	name := seriesOf(cluster.Each(all, func(v *cluster.Advice) string { return v.Container }))
	learning := max(b.history, 24*time.Hour)
	switch {
	case b.isLearnt(of, name, learning):
		bare := *s.Autoscaler
		bare.Policies = nil // they are about containers
		if v := adviceOf(recommend.Workload(s.Profile.Params, s.Profile.Estimator, b.Store, &bare, of, b.now), name); v != nil {
			out = v.Target
		}
	case b.now.Sub(b.began) < 2*learning:
		out = partsOf(s.Autoscaler, all)
	}
	if series := b.Store.Series(of, name); series != nil {
		if killed, _, _ := series.LastOOM(); b.now.Sub(killed) < calm {
			out = out.Only(cluster.Of(cluster.CPU))
		}
	}
	return out
}

// partsOf returns the sum of the parts in the status, of resources of which each container has one.
func partsOf(a *cluster.Autoscaler, all []cluster.Advice) (out cluster.Resources) {
	has := cluster.Both
	for i := range all {
		var part cluster.Resources
		if before := a.AdviceFor(all[i].Container); before != nil {
			part = before.Shared
		}
		has &= part.Has
		out = out.Add(part)
	}
	return out.Only(has)
}
