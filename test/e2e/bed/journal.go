// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"slices"
	"time"

	"podfit.dev/podfit/test/e2e/invariant"
)

// Unreviewed is an annotation of pods that a test creates while it keeps podfit's webhook from sizing them. Its value is "true".
const Unreviewed = "podfit.dev/test-unreviewed"

// A Journal collects the observations for the invariants from an API server that is not a Cluster: the caller passes on entries of its audit log
// and states of objects. It is not safe for several goroutines.
type Journal struct {
	facts  auditFacts
	states states
}

// NewJournal returns a journal without observations.
func NewJournal() *Journal { return &Journal{facts: newAuditFacts()} }

// Audit reads a line of the audit log.
func (j *Journal) Audit(line []byte) error { return j.facts.add(line) }

// Saw records a state of a pod, a controller of pods or a PodDisruptionBudget. Other objects are ignored.
func (j *Journal) Saw(o any, at time.Time, gone bool) { j.states.saw(o, at, gone) }

// Log returns all observations that were not forgotten.
func (j *Journal) Log() invariant.Log {
	out := j.states.log
	out.Writes, out.Autoscalers = j.facts.writes, j.facts.autoscalers
	return out
}

// Forget forgets the observations before a time, except the last one of each object that still existed.
func (j *Journal) Forget(before time.Time) {
	l := &j.states.log
	j.facts.writes = slices.DeleteFunc(j.facts.writes, func(w invariant.Write) bool { return w.At.Before(before) })
	j.facts.autoscalers = lastBefore(j.facts.autoscalers, before, func(a *invariant.Autoscaler) (string, time.Time, bool) {
		return a.Namespace + "/" + a.Name, a.At, a.Gone
	})
	l.Pods = lastBefore(l.Pods, before, func(p *invariant.Pod) (string, time.Time, bool) { return p.UID, p.At, p.Gone })
	l.Controllers = lastBefore(l.Controllers, before, func(c *invariant.Controller) (invariant.Ref, time.Time, bool) { return c.Ref, c.At, c.Gone })
	l.Budgets = lastBefore(l.Budgets, before, func(b *invariant.Budget) (string, time.Time, bool) { return b.Namespace + "/" + b.Name, b.At, b.Gone })
}

// lastBefore returns states without those before a time, except the last one of each object if it still existed. States are in order of time.
func lastBefore[T any, K comparable](all []T, before time.Time, of func(*T) (object K, at time.Time, gone bool)) []T {
	last := map[K]int{}
	for i := range all {
		if object, at, _ := of(&all[i]); at.Before(before) {
			last[object] = i
		}
	}
	var out []T
	for i := range all {
		object, at, gone := of(&all[i])
		if !at.Before(before) || last[object] == i && !gone {
			out = append(out, all[i])
		}
	}
	return out
}
