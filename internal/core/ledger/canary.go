// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

type canaryRecords struct {
	canaries map[cluster.Workload]rollout.State
}

// ObserveCanaries returns the states of the canaries of all workloads that have an autoscaler with canaries. Other states are dropped: so
// the removal of the annotation ends a cool-down.
func (l *canaryRecords) ObserveCanaries(now time.Time, v View) map[cluster.Workload]rollout.State {
	out := map[cluster.Workload]rollout.State{}
	for _, g := range v.Governed {
		a := g.Autoscaler
		if !a.Canary.On {
			continue
		}
		if s, ok := l.canaries[a.Target]; ok {
			out[a.Target] = s // also while the workload has no pods
		}
		for workload, pods := range cluster.GroupBy(g.Pods, (*cluster.Pod).Workload) {
			answer := v.Throttling[workload]
			if v.Throttling == nil {
				answer.Result = rollout.NoPrometheus
			}
			if s := l.canaries[workload].ObserveAll(now, a.Canary, pods, answer); s.Phase != rollout.Idle || s.Reverts > 0 {
				out[workload] = s
			} else {
				delete(out, workload)
			}
		}
	}
	return out
}

// ThrottlingQueries returns the queries for the CPU throttling and the objectives of the canaries, at most one per workload.
func (l *canaryRecords) ThrottlingQueries(now time.Time, governed []cluster.Governed) map[cluster.Workload]rollout.ThrottlingQuery {
	out := map[cluster.Workload]rollout.ThrottlingQuery{}
	for _, g := range governed {
		a := g.Autoscaler
		if !a.Canary.On {
			continue
		}
		for workload, pods := range cluster.GroupBy(g.Pods, (*cluster.Pod).Workload) {
			if q, ok := l.canaries[workload].Query(now, a.Canary, pods); ok {
				out[workload] = q
			}
		}
	}
	return out
}

// startOf returns the state in which the pod of an attempt is the canary.
func (l *canaryRecords) startOf(now time.Time, d *Attempt) rollout.State {
	return l.canaries[d.Pod.Workload()].Start(now, d.Pod, SizesOf(d.With), d.Do == decision.Resize && change.Restarts(d.Pod, d.With))
}

// CanaryPlanned records that a pass is about to change a pod as the canary of its workload.
func (l *canaryRecords) CanaryPlanned(now time.Time, d Attempt) {
	l.canaries[d.Pod.Workload()] = l.startOf(now, &d)
}

// CanaryChanged records that the canary was changed, or may have been if that is not certain.
func (l *canaryRecords) CanaryChanged(now time.Time, d Attempt, certain bool) {
	s := l.startOf(now, &d)
	if certain {
		s = s.Changed()
	}
	l.canaries[d.Pod.Workload()] = s
}

// CanaryCanceled records that the canary of a workload was not changed.
func (l *canaryRecords) CanaryCanceled(w cluster.Workload) { l.canaries[w] = l.canaries[w].Cancel() }

// Canary returns the state of the canary of a workload.
func (l *canaryRecords) Canary(w cluster.Workload) rollout.State { return l.canaries[w] }

// restoreCanary adds a stored state. Its times are bounded, because the object may be changed by users.
func (l *canaryRecords) restoreCanary(now time.Time, s *State) {
	c := s.Canary
	if c == nil || c.Phase > rollout.Held || c.Cause > rollout.Throttled {
		return
	}
	restored := c.Present(now)
	restored.Reverts = attempt.Count(c.Reverts)
	restored.Throttled, restored.ThrottledBefore = min(c.Throttled, 100), min(c.ThrottledBefore, 100)
	if c.Phase != rollout.Idle && len(c.After) == 0 {
		return
	}
	addNew(l.canaries, s.Workload, restored)
}

func (l *canaryRecords) exportCanaries(state func(cluster.Workload) *State) {
	for w, s := range l.canaries {
		if s.Phase != rollout.Idle || s.Reverts > 0 {
			state(w).Canary = &s
		}
	}
}

// SizesOf returns the requests of fits.
func SizesOf(fits []policy.Fitted) []rollout.Size {
	var out []rollout.Size
	for i := range fits {
		if !fits[i].Inserted {
			out = append(out, rollout.Size{Container: fits[i].Container, Requests: fits[i].Requests})
		}
	}
	return out
}
