// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// maxKills bounds the OOM kills that a row lists per container.
const maxKills = 32

// rowOf returns the row of a workload without pods.
func (w *World) rowOf(key cluster.Workload, a *cluster.Autoscaler) *Row {
	row := &Row{Workload: key}
	if a == nil {
		return row
	}
	row.VPA = a.Name
	row.Mode = a.Mode.String()
	row.Profile = a.Recommender
	if row.Profile == "" {
		row.Profile = "default"
	}
	for i := range a.Advice {
		row.container(w, a.Advice[i].Container, a) // also shown while the workload has no pods
	}
	return row
}

// container returns a container of the row, and adds it if it is new.
func (r *Row) container(w *World, name string, a *cluster.Autoscaler) *Container {
	at := sort.Search(len(r.Containers), func(i int) bool { return r.Containers[i].Name >= name })
	if at < len(r.Containers) && r.Containers[at].Name == name {
		return &r.Containers[at]
	}
	c := Container{Name: name, evidence: w.evidenceOf(usage.Ref{Workload: r.Workload, Container: name}, a)}
	if a != nil {
		if advice := a.AdviceFor(name); advice != nil {
			c.Estimate = advice.Estimate
			c.Uncapped = advice.Uncapped
		}
		for i, res := range cluster.All {
			if state, first := policy.HorizontalOf(a, name, res); state.IsLeft() {
				c.Kept = c.Kept.With(res)
				c.keptBy[i] = first.HPA.Name
			}
			if !a.Policy(name).Controls().Has(res) {
				c.Free = c.Free.With(res)
			}
		}
	}
	if !c.Estimate.Target.Has.Empty() {
		c.Confidence = c.evidence.Confidence()
		c.Days = c.evidence.Days()
	}
	r.Containers = append(r.Containers, c)
	copy(r.Containers[at+1:], r.Containers[at:])
	r.Containers[at] = c
	return &r.Containers[at]
}

// provisional is the evidence of a recommendation while the stored usage is not known. The status of a VPA does not contain it.
var provisional = review.Evidence{Provisional: true, Samples: 2}

// evidenceOf returns what the stored usage of a container shows.
func (w *World) evidenceOf(ref usage.Ref, a *cluster.Autoscaler) *review.Evidence {
	if e := w.Evidence[ref]; e != nil {
		return e
	}
	if w.Evidence == nil && a != nil {
		return &provisional
	}
	none := review.StoredEvidence(a, ref.Container, nil, w.Now)
	return &none
}

// add counts a live pod. scratch is memory for the sizes of its containers, which add returns for the next pod.
func (r *Row) add(w *World, p *cluster.Pod, a *cluster.Autoscaler, used map[place]cluster.Resources, scratch []cluster.Resources) []cluster.Resources {
	r.Pods++
	sized := true
	since := w.Now.Add(-review.KillWindow)
	for i := range p.Containers {
		c := &p.Containers[i]
		requests, limits := c.Running()
		if c.Role == cluster.Init {
			scratch = append(scratch, cluster.Resources{})
			continue
		}
		known := r.container(w, c.Name, a)
		known.Sidecar = c.Role == cluster.Sidecar
		known.count(requests, limits)
		if known.pods++; known.pods == 1 || p.Created.After(known.newest) {
			known.newest = p.Created
			known.Requests, known.Limits, known.jvm = requests, limits, review.IsJVM(p, c)
		}
		if c.Exit != nil && c.Exit.OOM {
			known.sawKill(c, since)
		}
		now := used[place{p.Key, c.Name}]
		known.Used = highest(known.Used, now)
		r.Totals.Used = r.Totals.Used.Add(now)
		wanted := known.Wanted(requests)
		scratch = append(scratch, wanted)
		for _, res := range cluster.All {
			if known.Changes(res) && !known.Sidecar {
				known.freed = known.freed.Set(res, known.freed.Amount(res)+requests.Amount(res)-review.Rounded(res, wanted.Amount(res)))
			}
		}
		sized = sized && known.within(requests)
	}
	r.Totals.Requested = r.Totals.Requested.Add(review.RequestsOf(p, nil))
	r.Totals.Recommended = r.Totals.Recommended.Add(review.RequestsOf(p, scratch))
	if sized {
		r.Sized++
	}
	return scratch
}

// Changes reports whether there is a recommendation for a request that podfit may apply.
func (c *Container) Changes(res cluster.Resource) bool {
	return c.Estimate.Target.Has.Has(res) && !c.Kept.Has(res) && !c.Free.Has(res) && c.Confidence > review.None
}

// Wanted returns the target of the container where there is one that podfit may apply, else the request.
func (c *Container) Wanted(requests cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		if c.Changes(res) {
			requests = requests.Set(res, c.Estimate.Target.Amount(res))
		}
	}
	return requests
}

// Fits reports whether the requests of all pods are within the bounds of the recommendation.
func (c *Container) Fits() bool { return c.within(c.Outside) }

// within reports whether requests are within the bounds of the recommendation.
func (c *Container) within(requests cluster.Resources) bool {
	for _, res := range cluster.All {
		if !c.Changes(res) {
			continue
		}
		have, ok := requests.Get(res)
		if lower, bounded := c.Estimate.Lower.Get(res); !ok || bounded && have < lower {
			return false
		}
		if upper, bounded := c.Estimate.Upper.Get(res); bounded && have > upper {
			return false
		}
	}
	return true
}

// count counts a pod with these requests and limits.
func (c *Container) count(requests, limits cluster.Resources) {
	for i := range c.sets {
		if c.sets[i].requests == requests && c.sets[i].limits == limits {
			c.sets[i].pods++
			return
		}
	}
	if len(c.sets) < 16 { // more different sizes occur only for a short time
		c.sets = append(c.sets, sizeCount{requests, limits, 1})
	}
}

// finish computes what depends on all pods of the row.
func (r *Row) finish(now time.Time) {
	for i := range r.Containers {
		c := &r.Containers[i]
		mostOutside := 0
		for _, s := range c.sets {
			if s.pods > mostOutside && !c.within(s.requests) {
				mostOutside = s.pods
				c.Outside = s.requests
			}
		}
		if mostOutside == 0 {
			c.Outside = c.Requests
		}
		c.sets = nil
		for _, res := range cluster.All {
			if freed := c.freed.Amount(res); freed > 0 {
				r.Freed = r.Freed.Set(res, r.Freed.Amount(res)+freed)
			}
		}
		e := c.known(now)
		if at := e.KilledLast; e.Kills > 0 && !slices.ContainsFunc(c.Kills, at.Equal) {
			c.Kills = append(c.Kills, at)
		}
		slices.SortFunc(c.Kills, time.Time.Compare)
	}
	r.judge(now)
}

// sawKill adds the OOM kill in the status of a pod.
func (c *Container) sawKill(in *cluster.Container, since time.Time) {
	if len(c.Kills) < maxKills {
		c.Kills = append(c.Kills, in.Exit.Finished)
	}
	if c.seen == nil {
		c.seen = new(review.Evidence)
	}
	c.seen.SeeKill(in, since)
}

// known returns the evidence of stored usage with what the pods show now: OOM kills and memory usage.
func (c *Container) known(now time.Time) review.Evidence {
	e := *c.evidence
	var none review.Evidence
	e.LearnKills(cmp.Or(c.seen, &none), now.Add(-review.KillWindow))
	e.DayPeaks[0] = max(e.DayPeaks[0], c.Used.Amount(cluster.Memory))
	return e
}

// highest returns the higher amount of each resource.
func highest(a, b cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		if v, ok := b.Get(res); ok && (v > a.Amount(res) || !a.Has.Has(res)) {
			a = a.Set(res, v)
		}
	}
	return a
}
