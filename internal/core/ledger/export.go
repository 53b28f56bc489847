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
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// A State is the part of a Ledger that concerns one workload, as values that can be stored. Restore reads it back.
//
// The order in which namespaces are served (Ledger.served) is not part of it: it only affects the order of actions, and starts
// anew after a restart.
type State struct {
	Workload cluster.Workload

	// ActingSince is the start of a pass that acts on pods of the workload, and whose outcomes are not part of this state. Zero if
	// all outcomes are. The caller sets it in the state that it stores before it acts.
	ActingSince time.Time

	// ActingNewest is ActingWorkload.Newest of these actions. Only set with ActingSince.
	ActingNewest time.Time

	// Acting lists the workloads that are announced together. Only the state of a namespace has it, and it has nothing else; see
	// NamespaceState.
	Acting []ActingGroup

	LastEviction time.Time // when a pod of the workload was last evicted; zero if no refusal depends on it
	Eviction     *EvictionState
	Replacements []PendingState // by controller
	Pods         []PodState     // the most recent attempt first
	Omitted      int            // records of pods that are left out because of maxPodStates
	Deletion     *DeletionState
	Rounds       *RoundsState
	Shortages    []ShortageState // the most recent first

	// Changes are the requests that were changed in the last hour, the oldest first. Only recorded if their share is limited.
	Changes []rollout.Change

	// Canary is the state of the canary of the workload; nil if there is none.
	Canary *rollout.State

	Capacity *headroom.State // nil if no capacity was asked for before an eviction

	// Waiting are the pods that should change and were left unchanged by the last pass, by reason, the most frequent first. Restore does not read
	// it: the next pass decides again.
	Waiting []WaitingState

	// Further features add their state here, one field per feature. See also v1alpha1.UpdateStateStatus.
}

// A PodState is the last attempt at an action on a pod.
type PodState struct {
	UID, Name string
	Do        decision.Act
	Done      bool // the action was carried out; else Failed is set
	At        time.Time
	Next      time.Time       // when the action may be tried again; zero if that is not limited. Restore does not read it
	Attempts  int             // consecutive failed attempts, or consecutive resizes that were undone before this one
	With      []policy.Fitted // the requests and limits that were requested
	Failed    *FailedState
}

// A FailedState describes an attempt that was refused, or whose outcome is unknown.
type FailedState struct {
	decision.Refusal
	Transient int       // consecutive last attempts with a transient failure
	Failing   time.Time // time of the first of these attempts since the API server was last not reached; zero if the last one failed otherwise
	Lost      time.Time // time of the last attempt without an answer; the pod may have been evicted then
	LostSince time.Time // time of the first of the consecutive last attempts without an answer; zero if the last one had an answer

	// Ready is the largest number of other ready pods of the group, without those changed in the pass, at the attempts in a row that a
	// disruption budget refused.
	Ready int

	// The last amounts that a quota refused, and when. A refusal by a webhook, which is called before, does not replace them.
	OverQuota      []policy.Fitted
	OverQuotaAt    time.Time
	OverQuotaTotal cluster.PodResources // Attempt.Total of that attempt
}

// An EvictionState is the last eviction of a pod of a workload whose replacement has not been observed with the expected requests.
type EvictionState struct {
	At          time.Time
	Newest      time.Time // creation of the newest pod at that time, by the API server's clock
	With        []policy.Fitted
	Ineffective int
	Judged      bool
	Superseded  []policy.Fitted // requested for the replacement of the eviction before, if it was not observed
	Previous    []policy.Fitted // the requests with which the evicted pod ran
	Uncertain   string          // UID of the pod if the outcome of the eviction is unknown
	Before      *EvictionState
}

// A PendingState lists the evicted pods of a controller whose replacements have not been observed.
type PendingState struct {
	Controller cluster.Workload
	Autoscaler cluster.Key
	Evicted    []EvictedPod // oldest first
	Complete   time.Time    // since when there have been as many pods as the controller wants; zero if there are not
	Replaced   int32        // pods created after the first of these evictions that replace pods of earlier ones; 0 if it is not known
	Most       int32        // maximum number of pods that the controller has wanted since; 0 if it is not known
}

// An EvictedPod is a pod that was evicted, or may have been.
type EvictedPod struct {
	UID    string
	At     time.Time
	Newest time.Time // creation of the newest pod of the workload at that time, by the API server's clock
}

// A RoundsState describes the rounds of evictions of a workload whose recommendation keeps changing.
type RoundsState struct {
	At     time.Time // of the last eviction
	Newest time.Time // creation of the newest pod when the last round began, by the API server's clock
	Count  int
}

// A DeletionState is the last deletion of a pod by an OOM rescue.
type DeletionState struct {
	At     time.Time
	Newest time.Time // creation of the newest pod at that time, by the API server's clock
	UID    string    // of the deleted pod
	Memory int64     // bytes that the replacement gets
	Again  int       // consecutive deletions before it whose replacement was OOM-killed too
}

// A ShortageState is a pod whose node was too full for its resize, and what was done to make room.
type ShortageState struct {
	UID, Name string
	Since     time.Time
	With      []policy.Fitted // what the last resize by a part asked for
	Parts     int             // resizes by a part
	Moves     int             // pods that were evicted to make room
}

// Bounds of a State. What exceeds them is left out, the oldest first, and counts as never tried after a restart.
const (
	maxPodStates       = 50 // per workload
	maxPendingStates   = 4  // controllers per workload
	maxEvictedPods     = 30 // per controller
	maxContainerStates = 32 // per attempt
	maxShortageStates  = 10 // per workload
)

// A podRef identifies a pod of a record. The maps of the ledger have only its UID.
type podRef struct {
	workload cluster.Workload
	name     string
}

// note records which pod a UID belongs to.
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
	states := map[cluster.Workload]*State{}
	state := func(w cluster.Workload) *State {
		s := states[w]
		if s == nil {
			s = &State{Workload: w}
			states[w] = s
		}
		return s
	}
	for w, a := range l.interrupted {
		s := state(w)
		s.ActingSince, s.ActingNewest = a.since, a.newest
	}
	l.exportAnnouncements(state)
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
		if r.isStored() {
			state(w).Rounds = &r
		}
	}
	l.exportShortages(state)
	for w, a := range l.headroom.All() {
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
			return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID), cmp.Compare(a.Do, b.Do), compareDone(a, b))
		})
		s.Omitted = max(0, len(s.Pods)-maxPodStates)
		s.Pods = s.Pods[:len(s.Pods)-s.Omitted]
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b State) int { return a.Workload.Compare(b.Workload) })
	return out
}

// exportShortages adds the records of pods whose nodes are too full to the states of their workloads.
func (l *Ledger) exportShortages(state func(cluster.Workload) *State) {
	changed := map[*State]bool{}
	for uid, short := range l.lacking {
		ref := l.pods[uid]
		s := state(ref.workload)
		short.UID, short.Name, short.With = uid, ref.name, bounded(short.With)
		s.Shortages = append(s.Shortages, short)
		changed[s] = true
	}
	for s := range changed {
		slices.SortFunc(s.Shortages, func(a, b ShortageState) int {
			return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
		})
		s.Shortages = s.Shortages[:min(len(s.Shortages), maxShortageStates)]
	}
}

func compareDone(a, b PodState) int {
	switch {
	case a.Done == b.Done:
		return 0
	case a.Done:
		return -1
	}
	return 1
}

// exportPods adds the records of pods to the states of their workloads.
func (l *Ledger) exportPods(b attempt.Delays, state func(cluster.Workload) *State) {
	add := func(uid string, p PodState) {
		ref := l.pods[uid]
		p.UID, p.Name, p.With = uid, ref.name, bounded(p.With)
		s := state(ref.workload)
		s.Pods = append(s.Pods, p)
	}
	for uid, r := range l.resizes {
		add(uid, PodState{Do: decision.Resize, Done: true, At: r.at, Attempts: r.ineffective, With: r.with})
	}
	for uid, at := range l.evicted {
		if l.replaced[uid] {
			continue
		}
		add(uid, PodState{Do: decision.Evict, Done: true, At: at})
	}
	for key, r := range l.refusals {
		counted := r
		counted.Attempts = l.attemptsOf(l.pods[key.uid].workload, r)
		failed := r.FailedState
		failed.OverQuota = bounded(r.OverQuota)
		add(key.uid, PodState{Do: key.do, At: r.At, Next: counted.Until(b), Attempts: r.Attempts, With: r.With, Failed: &failed})
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

func bounded(with []policy.Fitted) []policy.Fitted { return with[:min(len(with), maxContainerStates)] }

func (e *eviction) export() *EvictionState {
	out := &EvictionState{
		At: e.at, Newest: e.newest, With: bounded(e.with), Ineffective: e.ineffective, Judged: e.judged, Uncertain: e.uncertain,
		Superseded: bounded(e.superseded), Previous: bounded(e.previous),
	}
	if e.before != nil {
		out.Before = e.before.export()
	}
	return out
}

// LastAction returns the time of the last action on a pod that was carried out, or may have been, and of the last change of a canary; zero
// if there is none.
func (s *State) LastAction() time.Time {
	last := s.ActingSince
	later := func(at time.Time) {
		if at.After(last) {
			last = at
		}
	}
	for i := range s.Acting {
		later(s.Acting[i].Since)
	}
	if s.Canary != nil {
		later(s.Canary.Since)
	}
	if s.Eviction != nil {
		later(s.Eviction.At)
	}
	if s.Deletion != nil {
		later(s.Deletion.At)
	}
	if s.Rounds != nil {
		later(s.Rounds.At)
	}
	if s.Capacity != nil {
		later(s.Capacity.Requested)
	}
	for i := range s.Replacements {
		for _, e := range s.Replacements[i].Evicted {
			later(e.At)
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		switch {
		case p.Done:
			later(p.At)
		case p.Failed != nil:
			later(p.Failed.Lost)
		}
	}
	return last
}
