// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/review"
)

// maxKills bounds the OOM kills that a row lists per container.
const maxKills = 32

func rowOf(w cluster.Workload, a *cluster.Autoscaler) *Row {
	row := &Row{Workload: w}
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
		row.container(a.Advice[i].Container, a) // also shown while the workload has no pods
	}
	return row
}

// container returns a container of the row, and adds it if it is new.
func (r *Row) container(name string, a *cluster.Autoscaler) *Container {
	at, found := slices.BinarySearchFunc(r.Containers, name, func(c Container, name string) int { return strings.Compare(c.Name, name) })
	if found {
		return &r.Containers[at]
	}
	c := Container{Name: name}
	if a != nil {
		if advice := a.AdviceFor(name); advice != nil {
			c.Estimate = advice.Estimate
			c.Uncapped = advice.Uncapped
		}
		for _, res := range cluster.All {
			if state, _ := policy.HorizontalOf(a, name, res); state.IsLeft() {
				c.Kept = c.Kept.With(res)
			}
		}
	}
	r.Containers = slices.Insert(r.Containers, at, c)
	return &r.Containers[at]
}

// add counts a live pod.
func (r *Row) add(p *cluster.Pod, a *cluster.Autoscaler, used map[place]cluster.Resources) {
	r.Pods++
	sized := true
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == cluster.Init {
			continue
		}
		requests, limits := c.Running()
		known := r.container(c.Name, a)
		known.count(requests, limits)
		if c.Exit != nil && c.Exit.OOM && len(known.Kills) < maxKills {
			known.Kills = append(known.Kills, c.Exit.Finished)
		}
		now := used[place{p.Key, c.Name}]
		known.Used = highest(known.Used, now)
		r.Totals.Used = r.Totals.Used.Add(now)
		r.Totals.Requested = r.Totals.Requested.Add(requests)
		wanted := known.Wanted(requests)
		r.Totals.Recommended = r.Totals.Recommended.Add(wanted)
		for _, res := range cluster.All {
			if target, ok := known.Estimate.Target.Get(res); ok && !known.Kept.Has(res) {
				known.freed = known.freed.Set(res, known.freed.Amount(res)+requests.Amount(res)-review.Rounded(res, target))
			}
		}
		sized = sized && known.within(requests)
	}
	if sized {
		r.Sized++
	}
}

// Wanted returns the target of the container where there is one that podfit may apply, else the request.
func (c *Container) Wanted(requests cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		if target, ok := c.Estimate.Target.Get(res); ok && !c.Kept.Has(res) {
			requests = requests.Set(res, target)
		}
	}
	return requests
}

// Fits reports whether the requests of all pods are within the bounds of the recommendation.
func (c *Container) Fits() bool { return c.within(c.Outside) }

// within reports whether requests are within the bounds of the recommendation.
func (c *Container) within(requests cluster.Resources) bool {
	for _, res := range cluster.All {
		if _, ok := c.Estimate.Target.Get(res); !ok || c.Kept.Has(res) {
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
		most := 0
		mostOutside := 0
		for _, s := range c.sets {
			if s.pods > most {
				most = s.pods
				c.Requests = s.requests
				c.Limits = s.limits
			}
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
		slices.SortFunc(c.Kills, time.Time.Compare)
	}
	r.judge(now)
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
