// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// changeRecords are the requests that were changed in the last hour.
type changeRecords struct {
	changes      map[cluster.Workload][]rollout.Change // requests that were changed in the last hour, if their share is limited
	changesSince time.Time                             // before this time, changes are unknown; zero if all are known
}

type spendRecords struct {
	spends map[string]spend // what changes took from disruption budgets, by pod UID
}

// DefaultWindow is how long a change takes from the budget by default.
const DefaultWindow = 54 * time.Second

// A spend is the disruption budget that the change of a pod took. It stays spent for a while, because a pod that was resized is
// still ready until the kubelet restarts its container, and a pod that replaces a stuck one needs time to become ready. So the number
// of pods that are changed at once does not depend on how often passes run. A resize without a restart ends earlier, when the kubelet has
// applied it.
//
// Evicted pods that were in service need no record: they count as gone until the watch shows them as deleted, and their
// replacements count when they are ready.
type spend struct {
	controller cluster.Workload
	stuck      bool // the pod was not ready for so long that it will not become ready by itself; otherwise it was in service
	until      time.Time
	with       []policy.Fitted // of a resize that restarts no container; nil: another change
}

// Spend records that a change of a pod has taken from the budget until a time, or may have. stuck is true if the pod was not ready for so
// long that it will not become ready by itself.
func (l *spendRecords) Spend(d Attempt, stuck bool, until time.Time) {
	s := spend{controller: d.Pod.Controller, stuck: stuck, until: until}
	if d.Do == decision.Resize && !change.Restarts(d.Pod, d.With) {
		s.with = d.With
	}
	l.spends[d.Pod.UID] = s
}

// HasSpent reports whether an earlier pass has taken the budget for a change of the pod in the same state.
func (l *spendRecords) HasSpent(now time.Time, p *cluster.Pod, stuck bool) bool {
	s, ok := l.spends[p.UID]
	return ok && s.stuck == stuck && now.Before(s.until) && !(s.with != nil && isApplied(p, s.with))
}

// Revived returns the number of stuck pods that earlier passes have changed and that still take from the budget, by controller.
func (l *spendRecords) Revived(now time.Time) map[cluster.Workload]int {
	out := map[cluster.Workload]int{}
	for _, s := range l.spends {
		if s.stuck && now.Before(s.until) {
			out[s.controller]++
		}
	}
	return out
}

// isApplied reports whether the kubelet has given the pod the requests and limits.
func isApplied(p *cluster.Pod, with []policy.Fitted) bool {
	return change.IsAsked(p, with) && !p.IsResizing() && !slices.ContainsFunc(p.Containers, func(c cluster.Container) bool { return c.Applied != nil })
}

// Changes returns the requests that were changed, by workload. It includes older changes than those of the last hour. The caller must not
// change it.
func (l *changeRecords) Changes() map[cluster.Workload][]rollout.Change { return l.changes }

// ChangesUnknownUntil returns until when the changes of the last hour are not all known; zero if they are.
func (l *changeRecords) ChangesUnknownUntil(now time.Time) time.Time {
	if until := l.changesSince.Add(rollout.Span); !l.changesSince.IsZero() && now.Before(until) {
		return until
	}
	return time.Time{}
}

// RecordChange records that a pod with the given requests was changed, or may have been, for the share of requests that is changed in an hour.
func (l *changeRecords) RecordChange(now time.Time, p *cluster.Pod, size cluster.Resources) {
	w := p.Workload()
	l.changes[w] = rollout.Record(l.changes[w], now, size)
}

// AssumeChanges records that it is unknown what was changed before a time, because an earlier updater could not store it. If the share of
// requests that is changed in an hour is limited, nothing is changed for an hour.
func (l *changeRecords) AssumeChanges(now time.Time) { l.changesSince = now }

func (l *changeRecords) forgetChanges(now time.Time) {
	for w, list := range l.changes {
		list = rollout.Recent(list, now)
		if len(list) == 0 {
			delete(l.changes, w)
			continue
		}
		l.changes[w] = list
	}
}

func (l *changeRecords) restoreChanges(now time.Time, s *State) {
	list := rollout.Recent(s.Changes, now)
	for i := range list {
		r := &list[i].Requests
		r.CPU = max(r.CPU, 0)
		r.Memory = max(r.Memory, 0)
	}
	if len(list) > 0 {
		addNew(l.changes, s.Workload, list)
	}
}
