// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// How many workloads a day changes: one of so many.
const (
	rolledOut       = 4  // a CronJob runs each day
	rolledOutSkewed = 8  // of all: its requests are far from its usage after each rollout, and no webhook has sized its pods
	scaledUp        = 10 // and down again later
	unmanaged       = 50 // the VPA is deleted, and created again later
	renamed         = 100
)

// A step is one change of a day.
type step struct {
	at float64 // fraction of the day
	do func()
}

// Day makes the changes of a day: rollouts, runs of jobs, more and fewer pods, VPAs that are deleted and created, workloads that are replaced by others, and
// a namespace that is deleted and replaced by another one. It returns when all of them are made, after the fraction busy of the day. The number of
// workloads and pods is the same then. Days are numbered from 1.
func (f *Fleet) Day(ctx context.Context, day int, length time.Duration) error {
	began := time.Now()
	for _, s := range f.steps(day) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(time.Duration(s.at * busy * float64(length))))):
		}
		f.mu.Lock()
		s.do()
		f.mu.Unlock()
	}
	return nil
}

// busy is the fraction of a day in which workloads change.
const busy = 0.6

// steps returns the changes of a day in order. It depends on the seed and the day only.
func (f *Fleet) steps(day int) []step {
	r := rand.New(rand.NewPCG(f.Seed, uint64(day)))
	var out []step
	add := func(from, to float64, do func()) { out = append(out, step{from + (to-from)*r.Float64(), do}) }
	for i := range f.Workloads {
		runsJobs := i%10 == 9
		if (i+day)%rolledOut == 0 || runsJobs {
			add(0, 1, func() { f.rollOutOf(i, i%rolledOutSkewed == 3) })
		}
		if (i+day)%scaledUp == 3 && !runsJobs {
			add(0, 0.4, func() { f.scaleOf(i, 1) })
			add(0.5, 1, func() { f.scaleOf(i, -1) })
		}
		if (i+day)%unmanaged == 7 {
			add(0, 0.4, func() { f.unmanage(i) })
			add(0.5, 1, func() { f.manage(i) })
		}
		if (i+day)%renamed == 9 {
			add(0, 1, func() { f.rename(i, day) })
		}
	}
	space := day % len(f.spaces)
	add(0.2, 0.3, func() { f.deleteSpace(space) })
	add(0.6, 0.7, func() { f.renewSpace(space, day) })
	slices.SortStableFunc(out, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return out
}

// rollOutOf rolls out a workload, with requests that are far from its usage or that suit it.
func (f *Fleet) rollOutOf(i int, skewed bool) {
	w := f.workloads[i]
	if w.deleted {
		return
	}
	if skewed {
		w.requests = f.requestsOf(w)
		for c := range w.requests {
			factor := int64(3 + w.revision%3)
			w.requests[c].millicores *= factor
			w.requests[c].bytes *= factor
		}
	}
	w.skewed = skewed
	f.rollOut(w)
	w.skewed = false
}

func (f *Fleet) scaleOf(i, by int) {
	w := f.workloads[i]
	if w.deleted || w.scaled == (by > 0) {
		return
	}
	w.scaled = by > 0
	f.scale(w, by)
}

// autoscalers is the resource of VPAs.
const autoscalers = "autoscaling.k8s.io/verticalpodautoscalers"

// unmanage deletes the VPA of a workload, and manage creates it again.
func (f *Fleet) unmanage(i int) {
	if w := f.workloads[i]; !w.deleted {
		f.server.Delete(autoscalers, w.namespace, w.name)
	}
}

func (f *Fleet) manage(i int) {
	if w := f.workloads[i]; !w.deleted && f.server.Get(autoscalers, w.namespace, w.name) == nil {
		f.addAutoscaler(i, time.Now())
	}
}

// rename replaces a workload by a new one. What podfit has stored about the old one stays.
func (f *Fleet) rename(i, day int) {
	w := f.workloads[i]
	if w.deleted {
		return
	}
	w.deleted = true
	delete(f.byName, w.namespace+"/"+w.name)
	for _, p := range f.podsOf(w) {
		f.server.Delete("/pods", p.Namespace, p.Name)
	}
	for _, resource := range []string{autoscalers, "policy/poddisruptionbudgets", "apps/deployments", "apps/statefulsets", "batch/cronjobs"} {
		f.server.Delete(resource, w.namespace, w.name)
	}
	f.server.Delete("apps/replicasets", w.namespace, w.owner)
	f.server.Delete("batch/jobs", w.namespace, w.owner)
	f.add(i, day)
}

// deleteSpace deletes a namespace.
func (f *Fleet) deleteSpace(space int) {
	for _, w := range f.workloads {
		if w.namespace == f.spaces[space] {
			w.deleted = true
			delete(f.byName, w.namespace+"/"+w.name)
		}
	}
	f.server.DeleteNamespace(f.spaces[space])
}

// renewSpace creates a namespace with new workloads in the place of a deleted one.
func (f *Fleet) renewSpace(space, day int) {
	f.spaces[space] = generationOf(f.spaces[space][:len("team-0000")], day)
	f.addNamespace(f.spaces[space], space)
	for i := space * perNamespace; i < min((space+1)*perNamespace, f.Workloads); i++ {
		f.add(i, day)
	}
}

// A Count is how many workloads are live.
type Count struct {
	Workloads, Pods int
	Containers      int // of the workloads, not of each pod
	Profiled        int // workloads whose VPA names a profile
	Created         int // containers of all workloads so far, also of deleted ones
}

// Live counts the live workloads.
func (f *Fleet) Live() (out Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Created = f.created
	for i, w := range f.workloads {
		if w.deleted {
			continue
		}
		out.Workloads++
		out.Pods += w.pods
		out.Containers += len(w.requests)
		if f.profiled(i) {
			out.Profiled++
		}
	}
	return out
}

// ExpireEvents deletes the Events that were last changed before a time, as an API server does after an hour.
func (f *Fleet) ExpireEvents(before time.Time) {
	for _, resource := range []string{"/events", "events.k8s.io/events"} {
		for _, o := range f.server.List(resource, "") {
			m := o.Decode()
			if m.GetCreationTimestamp().Time.Before(before) {
				f.server.Delete(resource, o.Namespace, o.Name)
			}
		}
	}
}

// A Workload is what a checker knows about a workload.
type Workload struct {
	Namespace, Name, Kind string
	Millicores, Bytes     float64 // the usage around which its first container moves
}

// WorkloadOf returns the live workload with a name.
func (f *Fleet) WorkloadOf(namespace, name string) (Workload, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.byName[namespace+"/"+name]
	if w == nil || w.deleted {
		return Workload{}, false
	}
	millicores, bytes := f.mean(w.name, 0)
	return Workload{Namespace: namespace, Name: name, Kind: w.kind, Millicores: millicores, Bytes: bytes}, true
}
