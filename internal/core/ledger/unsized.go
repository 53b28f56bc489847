// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// Unsized describes why a replacement would not get the recommended requests, according to a dry run.
type Unsized struct {
	Container string           // with the largest difference
	Resource  cluster.Resource // of the largest difference
	Got, Want int64            // of the resource: millicores or bytes
	Called    bool             // the admission controller took part
	First     bool             // the admission controller may not know the target yet: this is the first such dry run, or it got the target before
	Failed    string           // why the replacement would not be created: the API server could not call a webhook; "" if it would be
	At        time.Time
}

// NeedsDryRun reports whether it must be checked before an eviction or surge of a pod of the workload whether a replacement would get the
// recommended requests: the last eviction of the workload had no effect, or the last one in the cluster whose effect is known.
func (l *evictionRecords) NeedsDryRun(w cluster.Workload) bool {
	return l.doubt || l.evictions[w].Ineffective > 0
}

// Undiagnosed reports whether the last eviction of a workload had no effect, and no dry run has shown why. It also returns the time of the
// last dry run, which did not show it; zero if there was none.
func (l *evictionRecords) Undiagnosed(w cluster.Workload) (asked time.Time, open bool) {
	e := l.evictions[w]
	return e.asked, e.Judged && !e.diagnosed
}

// DryRunFailed records a dry run that does not show whether a replacement would get the recommended requests, for example because podfit has
// no right to create pods.
func (l *evictionRecords) DryRunFailed(now time.Time, w cluster.Workload) {
	e, known := l.evictions[w]
	if known {
		e.asked = now
		l.evictions[w] = e
	}
}

// LastUnsized returns the result of the last dry run for a workload, and whether it found that a replacement would not get the recommended
// requests. The result is deleted as soon as a replacement gets the recommended requests.
func (l *evictionRecords) LastUnsized(w cluster.Workload) (Unsized, bool) {
	u := l.evictions[w].unsized
	if u == nil {
		return Unsized{}, false
	}
	return *u, true
}

// DryRun records a dry run for the replacement of a pod: the containers that it would have or, if it is nil, why it would not be created. It
// reports whether the replacement would get the recommended requests.
func (l *evictionRecords) DryRun(now time.Time, d Attempt, replacement *cluster.Pod, failed string) bool {
	w := d.Pod.Workload()
	e, known := l.evictions[w]
	replacement = unboosted(replacement, d.With)
	if replacement != nil && hasRequests(replacement, d.With) {
		e.unsized = nil
		e.diagnosed = true
		if known {
			l.evictions[w] = e
		}
		return true
	}
	if !known {
		e = eviction{EvictionState: EvictionState{Newest: d.newest(now), With: d.With, Ineffective: 1, Judged: true}}
	}
	if e.assumed { // the pods still need an eviction, and one would have no effect
		e.assumed = false
		e.before = nil
		e.With = d.With
	}
	e.At = now
	e.Ineffective = max(e.Ineffective, 1)
	u := &Unsized{Failed: attempt.Shortened(failed)}
	if replacement != nil {
		u = differenceOf(replacement, d.With)
	}
	u.First = u.Called && (e.unsized == nil || !e.unsized.Called || u.Got == e.unsized.Want) // a target changes often: another one alone proves nothing
	u.At = now
	e.unsized = u
	e.diagnosed = !u.First
	e.asked = now
	l.evictions[w] = e
	return false
}

// differenceOf returns how a replacement differs from the recommended requests.
func differenceOf(replacement *cluster.Pod, with []policy.Fitted) *Unsized {
	out := &Unsized{Called: replacement.Sized}
	largest := 0.0
	for pair := range change.Pairs(replacement, with, true) { // the largest relative difference, as the reasons for a change name it
		part := math.Abs(float64(pair.To)-float64(pair.From)) / math.Max(float64(pair.From), 1)
		if !pair.Limit && (out.Resource == 0 || part > largest) {
			largest = part
			out.Container = pair.Container.Name
			out.Resource = pair.Resource
			out.Got = pair.From
			out.Want = pair.To
		}
	}
	return out
}

// unboosted returns a replacement in which containers with a CPU startup boost have the recommended CPU, which they get after the boost.
func unboosted(replacement *cluster.Pod, with []policy.Fitted) *cluster.Pod {
	if replacement == nil || !replacement.IsBoosted() {
		return replacement
	}
	out := *replacement
	out.Containers = slices.Clone(replacement.Containers)
	for i := range out.Containers {
		c := &out.Containers[i]
		for k := range with {
			if cpu, ok := with[k].Requests.Get(cluster.CPU); ok && c.Boosted != nil && with[k].Container == c.Name {
				c.Requests = c.Requests.Set(cluster.CPU, cpu)
			}
		}
	}
	return &out
}
