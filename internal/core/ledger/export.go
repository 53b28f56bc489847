// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/integer"
)

// A podRef identifies a pod of a record. The maps of the ledger have only its UID.
type podRef struct {
	workload cluster.Workload
	name     string
}

func (l *Ledger) note(p *cluster.Pod) { l.pods[p.UID] = podRef{p.Workload(), p.Name} }

// forgetPods forgets pods without a record. A record whose pod turns out to be in another namespace is removed first: it comes from
// a stored object that a user of that namespace has changed.
func (l *Ledger) forgetPods(ds []decision.Decision) {
	for i := range ds {
		uid := ds[i].Pod.UID
		if ref, ok := l.pods[uid]; ok && ref.workload.Namespace != ds[i].Pod.Namespace {
			delete(l.resizes, uid)
			delete(l.evicted, uid)
			delete(l.lacking, uid)
			for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
				delete(l.refusals, refusedKey{uid, do})
			}
		}
	}
	recorded := make(map[string]bool, len(l.refusals))
	for key := range l.refusals {
		recorded[key.uid] = true
	}
	maps.DeleteFunc(l.pods, func(uid string, _ podRef) bool {
		_, resized := l.resizes[uid]
		_, evicted := l.evicted[uid]
		_, lacking := l.lacking[uid]
		return !resized && !evicted && !lacking && !recorded[uid]
	})
}

// Export returns the state of each workload that has any, sorted by workload. The budget determines when actions may be tried again.
func (l *Ledger) Export(b attempt.Delays) []State {
	var states map[cluster.Workload]*State
	state := func(w cluster.Workload) *State {
		return cluster.Memo(&states, w, func() *State { return &State{Workload: w} })
	}
	for w, a := range l.interrupted {
		s := state(w)
		s.ActingSince = a.since
		s.ActingNewest = a.newest
	}
	for w, e := range l.evictions {
		if e.assumed { // the announcement says so
			if e.before != nil {
				state(w).Eviction = e.before.export()
			}
			continue
		}
		state(w).Eviction = e.export()
	}
	for _, controller := range l.MissingReplacements() {
		o := l.pending[controller]
		s := state(o.workload)
		if len(s.Replacements) < maxPendingStates {
			o.Evicted = last(o.Evicted, maxEvictedPods)
			s.Replacements = append(s.Replacements, o.PendingState)
		}
	}
	for w, r := range l.rescues {
		state(w).Deletion = &r
	}
	for w, r := range l.rounds {
		if r.Count > 1 { // a single round blocks nothing
			state(w).Rounds = &r
		}
	}
	for uid, short := range l.lacking {
		ref := l.pods[uid]
		s := state(ref.workload)
		short.UID, short.Name = uid, ref.name
		s.Shortages = append(s.Shortages, short)
	}
	for w, a := range l.Headroom.All() {
		state(w).Capacity = &a
	}
	l.exportPods(b, state)
	l.exportCanaries(state)
	for w, list := range l.waiting {
		state(w).Waiting = list
	}
	for w, list := range l.changes {
		state(w).Changes = list
	}
	delete(states, cluster.Workload{})
	out := make([]State, 0, len(states))
	for _, s := range states {
		s.LastEviction = l.lastRelevantEviction(s)
		slices.SortFunc(s.Pods, func(a, b PodState) int {
			return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID), cmp.Compare(a.Do, b.Do), integer.FalseFirst(b.Failed == nil, a.Failed == nil))
		})
		s.Omitted = max(0, len(s.Pods)-maxPodStates)
		s.Pods = s.Pods[:len(s.Pods)-s.Omitted]
		slices.SortFunc(s.Shortages, func(a, b ShortageState) int {
			return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
		})
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b State) int { return a.Workload.Compare(b.Workload) })
	return out
}

func (l *Ledger) exportPods(b attempt.Delays, state func(cluster.Workload) *State) {
	add := func(uid string, p PodState) {
		ref := l.pods[uid]
		p.UID, p.Name = uid, ref.name
		s := state(ref.workload)
		s.Pods = append(s.Pods, p)
	}
	for uid, r := range l.resizes {
		add(uid, PodState{Do: decision.Resize, At: r.at, Attempts: r.ineffective, With: r.with})
	}
	for uid, at := range l.evicted {
		add(uid, PodState{Do: decision.Evict, At: at})
	}
	for key, r := range l.refusals {
		counted := r
		counted.Attempts = l.attemptsOf(l.pods[key.uid].workload, r)
		add(key.uid, PodState{Do: key.do, At: r.At, Next: counted.Until(b), Attempts: r.Attempts, With: r.With, Failed: &r.FailedState})
	}
}

// lastRelevantEviction returns when a pod of the workload was last evicted, if the count of a refusal depends on it.
func (l *refusalRecords) lastRelevantEviction(s *State) time.Time {
	last := l.progress[s.Workload]
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Failed != nil && p.Failed.Kind == decision.DeniedByBudget && !last.Before(p.At) {
			return last
		}
	}
	return time.Time{}
}

func (e *eviction) export() *EvictionState {
	out := e.EvictionState
	if e.before != nil {
		out.Before = e.before.export()
	}
	return &out
}
