// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// observeCanaries returns the states of the canaries of all workloads that have an autoscaler with canaries. Other states are dropped: so
// the removal of the annotation ends a cool-down.
func observeCanaries(now time.Time, w World) map[cluster.Workload]rollout.State {
	out := map[cluster.Workload]rollout.State{}
	for _, g := range w.Governed {
		a := g.Autoscaler
		if !a.Canary.On {
			continue
		}
		if s, ok := w.Ledger.canaries[a.Target]; ok {
			out[a.Target] = s // also while the workload has no pods
		}
		byWorkload := map[cluster.Workload][]*cluster.Pod{}
		for _, p := range g.Pods {
			byWorkload[workloadOf(p)] = append(byWorkload[workloadOf(p)], p)
		}
		for workload, pods := range byWorkload {
			if s := w.Ledger.canaries[workload].Observe(now, a.Canary.Watch, pods); s.Phase != rollout.Idle || s.Reverts > 0 {
				out[workload] = s
			} else {
				delete(out, workload)
			}
		}
	}
	return out
}

// held returns the autoscaler with the recommendation that applies to a pod: the size before, if a newer one was reverted.
func (s *pass) held(a *cluster.Autoscaler, p *cluster.Pod) *cluster.Autoscaler {
	if !a.Canary.On {
		return a
	}
	return s.canaries[workloadOf(p)].Hold(s.now, a)
}

// sizes returns the requests of fits.
func sizes(fits []policy.Fitted) []rollout.Size {
	var out []rollout.Size
	for i := range fits {
		if !fits[i].Inserted {
			out = append(out, rollout.Size{Container: fits[i].Container, Requests: fits[i].Requests})
		}
	}
	return out
}

// awaitsCanary blocks a change while another pod of the workload shows whether the new size works, and after it has shown that it does
// not. A container that was OOM-killed does not wait.
func (t *candidate) awaitsCanary() (Reason, bool) {
	a, p := t.d.Autoscaler, t.d.Pod
	if !a.Canary.On || t.d.Wanted.Code == OutOfMemory {
		return Reason{}, false
	}
	s := t.pass.canaries[workloadOf(p)]
	switch {
	case s.Phase == rollout.Held:
		return Reason{Code: Reverted, Text: s.Text(), Until: s.Until}, !rollout.HasSize(p, s.After)
	case s.Phase == rollout.Watching:
		return Reason{Code: AwaitingCanary, Text: s.Pod, Until: s.Since.Add(a.Canary.Watch)}, true
	case s.Phase == rollout.Starting:
		return Reason{Code: AwaitingCanary, Text: s.Pod}, s.UID != p.UID // when its watch begins is not known yet
	case s.Accepts(sizes(t.d.With)):
		return Reason{}, false
	}
	first := t.scope.firsts[workloadOf(p)]
	if first == nil && t.d.Wanted.Code == Fits {
		return Reason{Code: AwaitingCanary, Text: p.Name}, true // a change only to make room for another pod is no canary
	}
	if first == nil || first == p {
		return Reason{}, false
	}
	return Reason{Code: AwaitingCanary, Text: first.Name, Until: t.now.Add(a.Canary.Watch)}, true
}

// beCanary makes the pod the canary of its workload if its change needs one.
func (t *candidate) beCanary() {
	a, w := t.d.Autoscaler, workloadOf(t.d.Pod)
	s := t.pass.canaries[w]
	if !a.Canary.On || t.d.Wanted.Code == BoostOver || s.Phase == rollout.Held || s.Phase == rollout.Watching || s.Accepts(sizes(t.d.With)) {
		return
	}
	if t.scope.firsts == nil {
		t.scope.firsts = map[cluster.Workload]*cluster.Pod{}
	}
	if t.scope.firsts[w] == nil {
		t.scope.firsts[w] = t.d.Pod
	}
	t.d.canary = t.scope.firsts[w] == t.d.Pod
}

// startOf returns the state in which the pod of a decision is the canary.
func (l *Ledger) startOf(now time.Time, d *Decision) rollout.State {
	return l.canaries[workloadOf(d.Pod)].Start(now, d.Pod, sizes(d.With), d.Do == Resize && restarts(d.Pod, d.With))
}

// canaryChanged records that the canary was changed, or may have been.
func (p *Pass) canaryChanged(d *Decision, certain bool) {
	if !d.canary {
		return
	}
	l := p.w.Ledger
	s := l.startOf(p.now, d)
	if certain {
		s = s.Changed()
	}
	l.canaries[workloadOf(d.Pod)] = s
}

// endCanary lets another pod be the canary, because this one was not changed.
func (p *Pass) endCanary(d *Decision) {
	if !d.canary {
		return
	}
	d.canary = false
	w := workloadOf(d.Pod)
	delete(d.scope.firsts, w)
	p.w.Ledger.canaries[w] = p.w.Ledger.canaries[w].Cancel()
}

// learnCanaries stores the observed states, and the canaries that the pass is about to change.
func (l *Ledger) learnCanaries(now time.Time, w World, ds []Decision) {
	w.Ledger = l
	l.canaries = observeCanaries(now, w)
	for i := range ds {
		if d := &ds[i]; d.canary && d.Do != Leave {
			l.canaries[workloadOf(d.Pod)] = l.startOf(now, d)
		}
	}
}

// Canary returns the state of the canary of a workload.
func (l *Ledger) Canary(w cluster.Workload) rollout.State { return l.canaries[w] }

// restoreCanary adds a stored state. Its times are bounded, because the object may be changed by users.
func (l *Ledger) restoreCanary(now time.Time, s *State) {
	c := s.Canary
	if c == nil || c.Phase > rollout.Held || c.Cause > rollout.NotReady {
		return
	}
	restored := *c
	restored.Since, restored.Reverts = past(now, c.Since), boundedCount(c.Reverts)
	if c.Phase != rollout.Idle && len(c.After) == 0 {
		return
	}
	addNew(l.canaries, s.Workload, restored)
}

// exportCanaries adds the states of canaries.
func (l *Ledger) exportCanaries(state func(cluster.Workload) *State) {
	for w, s := range maps.All(l.canaries) {
		if s.Phase != rollout.Idle || s.Reverts > 0 {
			state(w).Canary = &s
		}
	}
}
