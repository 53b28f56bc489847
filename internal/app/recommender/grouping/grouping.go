// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package grouping sizes pods by their role: it keeps a usage history of each group of pods, beside that of their workload. A group is the pods with
// one value of the label that the annotation podfit.dev/role-label of the VPA names, the pods of a DaemonSet on nodes of one size, or pods that use much
// or little CPU. Likewise, it sizes pods with pod-level resources as a whole, with a usage history of the sums over their containers.
package grouping

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

// A Workload has pods that are sized by their role, or pods whose containers share headroom.
type Workload struct {
	Autoscaler *cluster.Autoscaler // that governs it
	Choice     *sizing.Choice
	Policies   []cluster.ContainerPolicy // by which usage is aggregated
	Pods       []*cluster.Pod
	Stored     []string // roles whose history is stored and not restored yet
	Whole      bool     // pods have pod-level resources (HasWholePods)
}

// A Book has the groups of all workloads. The recommender's goroutine owns it.
type Book struct {
	Store *usage.Store // by group (cluster.Workload.InGroup)

	history, interval time.Duration // --role-history, --recommender-interval
	now               time.Time     // of the pass
	workloads         map[cluster.Workload]*grouped
	editions          map[cluster.Workload]sizing.Edition // of each group: the profile that its model state belongs to
	tracked           map[cluster.Key]member              // pods in the store
	pods              map[cluster.Workload]int            // of each group: its pods in the store
	levels            map[cluster.Workload]*levels        // of workloads whose pods have the roles busy and quiet
	watched           map[cluster.Key]watched             // the pods of these
	sums              map[cluster.Key]*sum                // of pods that are sized as a whole
	began             time.Time                           // the first pass
}

type grouped struct {
	Workload
	roles []string // sorted, at most cluster.MaxGroups
}

// A member is a pod of a group.
type member struct {
	of    cluster.Workload
	since time.Time // when it came from another group, by its role; zero if it did not
}

// gone is how long after its last sample a role without pods has no group any more.
const gone = 8 * 24 * time.Hour

// settled is how long after a change of its role the usage of a pod may still be measured of the time before.
const settled = time.Minute

// New returns a Book without groups.
func New(c usage.Config, history, interval time.Duration) *Book {
	return &Book{Store: usage.NewStore(c), history: history, interval: max(interval, time.Minute)}
}

// Configure selects the groups of the workloads, and prepares their histories. Stored groups are among them, so that they can be restored. Without
// --role-history there are none.
func (b *Book) Configure(now time.Time, all []Workload) {
	b.now = now
	if b.began.IsZero() {
		b.began = now
	}
	b.Store.Tick(now)
	next := map[cluster.Workload]*grouped{}
	editions := map[cluster.Workload]sizing.Edition{}
	b.watch(all)
	for _, w := range all {
		if b.history == 0 {
			break
		}
		target := w.Autoscaler.Target
		known := w.Stored
		if before := b.workloads[target]; before != nil {
			known = slices.Concat(known, slices.DeleteFunc(before.roles, func(role string) bool { return b.absence(target.InGroup(role)) > gone }))
		}
		roles := rolesOf(w.Pods, func(p *cluster.Pod) string { return b.roleOf(w.Autoscaler, p) }, known)
		if a := w.Autoscaler; !a.SizesByRole() || len(roles) < 2 && (a.SizesByNode() || a.SizesByUsage()) {
			roles = nil // all nodes or pods are alike
		}
		next[target] = &grouped{w, roles}
		groups := slices.Clone(roles)
		if w.Whole {
			groups = append(groups, cluster.WholePod)
		}
		for _, role := range groups {
			of := target.InGroup(role)
			b.Store.Configure(of, w.Policies)
			editions[of] = b.extend(of, w.Choice)
		}
	}
	for of := range b.editions {
		if _, needed := editions[of]; !needed {
			b.Store.Release(of)
			b.Store.Extend(of, nil)
		}
	}
	b.workloads, b.editions = next, editions
}

// extend gives a group the model state of a profile, and returns whose model state it has.
func (b *Book) extend(of cluster.Workload, choice *sizing.Choice) sizing.Edition {
	before, known := b.editions[of]
	switch {
	case !choice.Usable:
		return before
	case choice.Edition == before && known:
	case choice.Edition.ModelState:
		b.Store.Replace(of, choice.Extend)
	default:
		b.Store.Extend(of, nil)
	}
	return choice.Edition
}

// rolesOf returns the roles that have a group, sorted: those of live pods, of these first the ones that have a group already, then those without a
// pod at present.
func rolesOf(pods []*cluster.Pod, roleOf func(*cluster.Pod) string, known []string) []string {
	rank := map[string]int{}
	for _, role := range known {
		rank[role] = 2
	}
	for _, p := range pods {
		if role := roleOf(p); role != "" && p.Live() {
			if at, has := rank[role]; !has {
				rank[role] = 1
			} else if at == 2 {
				rank[role] = 0
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(rank), func(a, b string) int { return cmp.Or(rank[a]-rank[b], strings.Compare(a, b)) })
	all = all[:min(len(all), cluster.MaxGroups)]
	slices.Sort(all)
	return all
}

// Track updates the pods of the groups, and adds OOM kills and evictions for lack of memory.
func (b *Book) Track(evictions []usage.OOM) {
	seen := map[cluster.Key]member{}
	pods := map[cluster.Workload]int{}
	b.trackWholes(seen, pods)
	for target, w := range b.workloads {
		for _, p := range w.Pods {
			role := b.roleOf(w.Autoscaler, p)
			if _, has := slices.BinarySearch(w.roles, role); !has {
				continue
			}
			m := member{of: target.InGroup(role)}
			if before, known := b.tracked[p.Key]; known {
				m.since = before.since
				if before.of != m.of {
					b.Store.ObserveExits(p) // in the former group
					m.since = b.now
				}
			}
			own := *p
			own.Top = m.of
			if !b.Store.Track(&own) {
				continue
			}
			seen[p.Key] = m
			pods[m.of]++
			isFormer := func(c cluster.Container) bool { return c.Exit != nil && !c.Exit.Finished.After(m.since) }
			own.Containers = slices.DeleteFunc(slices.Clone(p.Containers), isFormer)
			b.Store.ObserveExits(&own)
		}
	}
	for key := range b.tracked {
		if _, found := seen[key]; !found {
			b.Store.Forget(key)
		}
	}
	b.tracked, b.pods = seen, pods
	for _, e := range evictions {
		b.Store.ObserveOOM(e)
		if sum := b.sums[e.Pod]; sum != nil {
			e.Pod, e.Container = wholeKey(e.Pod), sum.series
			b.Store.ObserveOOM(e)
		}
	}
}

// Observe adds a sample, if its pod is in a group, and was when it was measured. Observed ends the samples of a pass.
func (b *Book) Observe(s *usage.Sample) {
	b.observeLevel(s)
	if sum := b.sums[s.Pod]; sum != nil && slices.Contains(sum.of, s.Container) { // no init or ephemeral container
		sum.add(s)
	}
	if m, has := b.tracked[s.Pod]; has && (m.since.IsZero() || s.At.After(m.since.Add(settled))) {
		b.Store.Observe(*s)
	}
}

// absence returns how long ago the last sample of a group without pods was, 0 if it has pods. Without samples that was before all times.
func (b *Book) absence(of cluster.Workload) time.Duration {
	var last time.Time
	for _, s := range b.Store.All(of) {
		if at := s.Seen(cluster.CPU).Last; at.After(last) {
			last = at
		}
	}
	switch {
	case b.pods[of] > 0:
		return 0
	case last.IsZero():
		return math.MaxInt64
	}
	return b.now.Sub(last)
}

// isLearnt reports whether a container of a group has a history of some length, and was measured at least half of that time.
func (b *Book) isLearnt(of cluster.Workload, container string, length time.Duration) bool {
	s := b.Store.Series(of, container)
	if s == nil {
		return false
	}
	seen := s.Seen(cluster.CPU)
	e := s.Extension()
	since := seen.First
	if e != nil && !e.Since().IsZero() && e.Since().After(since) {
		since = e.Since()
	}
	measured := time.Duration(seen.Count/max(1, b.pods[of])) * b.interval
	return seen.Count > 0 && b.now.Sub(since) >= length && measured >= length/2
}
