// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"
)

// A judgement is a log in order, and the limits it is judged by.
type judgement struct {
	Limits
	writes      []*Write
	pods        history[string, *Pod] // by UID
	named       map[string][]*Pod     // by namespace and name
	controllers history[Ref, *Controller]
	budgets     history[string, *Budget]     // by namespace and name
	autoscalers history[string, *Autoscaler] // by namespace and name
	evictions   map[string]time.Time         // time of the eviction by podfit, by pod UID
}

func newCase(l Log, limits Limits) *judgement {
	j := &judgement{
		Limits: limits, pods: history[string, *Pod]{}, named: map[string][]*Pod{}, controllers: history[Ref, *Controller]{},
		budgets: history[string, *Budget]{}, autoscalers: history[string, *Autoscaler]{}, evictions: map[string]time.Time{},
	}
	for i := range l.Pods {
		p := &l.Pods[i]
		j.pods[p.UID] = append(j.pods[p.UID], p)
		j.named[key(p.Namespace, p.Name)] = append(j.named[key(p.Namespace, p.Name)], p)
	}
	for i := range l.Controllers {
		c := &l.Controllers[i]
		j.controllers[c.Ref] = append(j.controllers[c.Ref], c)
	}
	for i := range l.Budgets {
		b := &l.Budgets[i]
		j.budgets[key(b.Namespace, b.Name)] = append(j.budgets[key(b.Namespace, b.Name)], b)
	}
	for i := range l.Autoscalers {
		a := &l.Autoscalers[i]
		j.autoscalers[key(a.Namespace, a.Name)] = append(j.autoscalers[key(a.Namespace, a.Name)], a)
	}
	j.pods.sort()
	j.controllers.sort()
	j.budgets.sort()
	j.autoscalers.sort()
	for _, ps := range j.named {
		byTime(ps)
	}
	for i := range l.Writes {
		j.writes = append(j.writes, &l.Writes[i])
	}
	slices.SortStableFunc(j.writes, func(a, b *Write) int { return a.At.Compare(b.At) })
	for _, w := range j.writes {
		if w.isPodfits() && (w.isEviction() || w.isDeletion()) && w.OK() {
			if uid := j.uid(w); uid != "" {
				j.evictions[uid] = w.At
			}
		}
	}
	return j
}

func key(namespace, name string) string { return namespace + "/" + name }

// A stamped is an object state with the time of its observation.
type stamped interface{ seen() time.Time }

func (p *Pod) seen() time.Time        { return p.At }
func (c *Controller) seen() time.Time { return c.At }
func (b *Budget) seen() time.Time     { return b.At }
func (a *Autoscaler) seen() time.Time { return a.At }

func byTime[T stamped](all []T) {
	slices.SortStableFunc(all, func(a, b T) int { return a.seen().Compare(b.seen()) })
}

// A history is the states of objects, each in order of time.
type history[K comparable, T stamped] map[K][]T

func (h history[K, T]) sort() {
	for _, all := range h {
		byTime(all)
	}
}

// during returns the states of an object between two times, including the state at the first one.
func during[T stamped](all []T, from, to time.Time) []T {
	first := 0
	last := 0
	for last < len(all) && !all[last].seen().After(to) {
		if !all[last].seen().After(from) {
			first = last
		}
		last++
	}
	return all[first:last]
}

// uid returns the UID of the pod of a write.
func (j *judgement) uid(w *Write) string {
	if w.UID != "" {
		return w.UID
	}
	if ps := during(j.named[key(w.Namespace, w.Name)], w.At, w.At); len(ps) > 0 {
		return ps[len(ps)-1].UID
	}
	return ""
}

// lately returns the states of a pod that a write may be based on.
func (j *judgement) lately(uid string, w *Write) []*Pod { return around(j, j.pods[uid], w) }

// then returns the state of a pod at the time of a write, or the next observed state; nil if there is none.
func (j *judgement) then(uid string, w *Write) *Pod {
	if ps := during(j.pods[uid], w.At, w.At); len(ps) > 0 {
		return ps[len(ps)-1]
	}
	if ps := j.lately(uid, w); len(ps) > 0 {
		return ps[0]
	}
	return nil
}

// around returns the states of an object that a write may be based on.
func around[T stamped](j *judgement, all []T, w *Write) []T {
	return during(all, w.At.Add(-j.Stale), w.At.Add(j.Lag))
}

// serving reports whether a pod was ready in all states that a write may be based on.
func (j *judgement) serving(uid string, w *Write) bool {
	return !slices.ContainsFunc(during(j.pods[uid], w.At.Add(-j.Stale), w.At), func(p *Pod) bool { return !p.Ready || p.Deleting })
}

// top returns the topmost known owner of a pod.
func (j *judgement) top(p *Pod) Ref {
	if cs := j.controllers[p.Controller]; len(cs) > 0 {
		if o := cs[len(cs)-1].Owner; o != (Ref{}) {
			return o
		}
	}
	return p.Controller
}

// governing returns the states of the VPAs of a pod that a write may be based on.
func (j *judgement) governing(p *Pod, w *Write) (out []*Autoscaler) {
	top := j.top(p)
	for _, all := range j.autoscalers {
		for _, a := range during(all, w.At.Add(-j.Stale), w.At) {
			if !a.Gone && a.Target == top {
				out = append(out, a.forRole(p))
			}
		}
	}
	return out
}

// served reports whether a pod was ready in one of the states that a write may be based on, and was not evicted by podfit
// before.
func (j *judgement) served(uid string, w *Write) bool {
	if at, evicted := j.evictions[uid]; evicted && at.Before(w.At) {
		return false
	}
	return slices.ContainsFunc(j.lately(uid, w), func(p *Pod) bool { return p.Ready && !p.Deleting && !p.Gone && !p.Finished })
}

// lived reports whether a pod was live on a node in one of the states that a write may be based on, and was not evicted by
// podfit before the pass of the write. Live pods are counted at the start of a pass; the eviction tolerance counts the evictions of
// the pass itself.
func (j *judgement) lived(uid string, w *Write) bool {
	if at, evicted := j.evictions[uid]; evicted && at.Before(w.At.Add(-j.Stale)) {
		return false
	}
	return slices.ContainsFunc(j.lately(uid, w), func(p *Pod) bool { return p.Scheduled && !p.Deleting && !p.Gone && !p.Finished })
}
