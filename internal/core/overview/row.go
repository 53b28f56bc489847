// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
)

// rowOf returns the row of a workload without pods.
func (w *World) rowOf(key cluster.Workload, a *cluster.Autoscaler) *Row {
	if a == nil {
		return &Row{Workload: key}
	}
	row := &Row{Workload: key, VPA: a.Name, Mode: a.Mode.String(), Frozen: a.Frozen, Profile: cmp.Or(a.Recommender, "default")}
	for i := range a.Advice {
		row.container(w, a.Advice[i].Container, a) // also shown while the workload has no pods
	}
	return row
}

func (r *Row) container(w *World, name string, a *cluster.Autoscaler) *Container {
	at, known := slices.BinarySearchFunc(r.Containers, name, func(c *Container, name string) int { return strings.Compare(c.Container, name) })
	if known {
		return r.Containers[at]
	}
	c := &Container{pods: new(podCount)}
	c.Subject = review.Subject{Workload: r.Workload, Container: name, VPA: r.VPA, Evidence: w.evidenceOf(usage.Ref{Workload: r.Workload, Container: name}, a)}
	if a != nil {
		c.Advice = a.AdviceFor(name)
		for i, res := range cluster.All {
			state, first := policy.HorizontalOf(a, name, res)
			switch {
			case !a.Policy(name).Controls().Has(res):
				c.Kept[i] = review.Kept{Reason: review.NotControlled, By: a.Name}
			case state.IsLeft():
				c.Kept[i] = review.Kept{Reason: review.ScaledByHPA, By: first.HPA.Name}
			}
		}
	}
	if target := c.Estimate().Target; !target.Has.Empty() {
		c.Targets = []review.Target{{Profile: r.Profile, Amount: target}}
	}
	c.Row = review.RowOf(&c.Subject)
	r.Containers = slices.Insert(r.Containers, at, c)
	return c
}

// evidenceOf returns what the stored usage of a container shows.
func (w *World) evidenceOf(ref usage.Ref, a *cluster.Autoscaler) *review.Evidence {
	if e := w.Evidence[ref]; e != nil && w.NoPods == "" {
		return e
	}
	if w.Evidence == nil && a != nil {
		return &review.Evidence{Lack: cmp.Or(w.Unread, "its stored usage is not known yet")} // the status of a VPA does not contain it
	}
	return new(review.StoredEvidence(a, ref.Container, nil, w.Now))
}

// add counts a live pod.
func (r *Row) add(w *World, p *cluster.Pod, a *cluster.Autoscaler, used map[usage.PodContainer]cluster.Resources) {
	r.Pods++
	group := a
	if a != nil {
		group = a.For(p)
	}
	sizes := make([]cluster.Resources, len(p.Containers))
	sized := true
	since := w.Now.Add(-review.KillWindow)
	for i := range p.Containers {
		c := &p.Containers[i]
		requests, limits := c.Running()
		if !c.IsSized() {
			r.Containers = slices.DeleteFunc(r.Containers, func(x *Container) bool { return x.Replicas == 0 && x.Container == c.Name })
			continue
		}
		known := r.container(w, c.Name, a)
		known.Sidecar = c.Role == cluster.Sidecar
		own := known.of(group)
		if known.Advice != nil && len(known.Advice.Groups) > 0 && a.SizesByRole() {
			known.countRole(a.RoleOf(p), own.Estimate().Target)
		}
		if own == known || !own.within(requests) {
			known.count(review.Size{Requests: requests, Limits: limits})
		}
		if known.Replicas++; a.Represents(p, known.pods.shown) {
			known.pods.shown = p
			known.Requests, known.Limits, known.JVM = requests, limits, review.IsJVM(p, c)
			known.PodLevel = review.PodLevelOf(p)
		}
		if c.Exit != nil && c.Exit.OOM {
			known.sawKill(c, since)
		}
		now := used[usage.PodContainer{Pod: p.Key, Container: c.Name}]
		known.Used = known.Used.Highest(now)
		r.Totals.Used = r.Totals.Used.Add(now)
		wanted := own.Wanted(requests)
		sizes[i] = wanted
		known.free(requests, wanted)
		sized = sized && own.within(requests)
	}
	r.Totals.Requested = r.Totals.Requested.Add(review.RequestsOf(p, nil))
	r.Totals.Recommended = r.Totals.Recommended.Add(review.RequestsOf(p, sizes))
	if sized {
		r.Sized++
	}
}

// free adds what a pod gives back.
func (c *Container) free(requests, wanted cluster.Resources) {
	for _, res := range cluster.All {
		if c.Applies(res) && (requests.Has.Has(res) || !c.PodLevel.Has(res)) { // otherwise it takes a part of the pod-level request
			c.Freed = c.Freed.Set(res, c.Freed.Amount(res)+requests.Amount(res)-review.Rounded(res, wanted.Amount(res)))
		}
	}
}

// of returns the container with the recommendation for pods of a group, or itself. The rest is shared.
func (c *Container) of(group *cluster.Autoscaler) *Container {
	if group == nil || group.AdviceFor(c.Container) == c.Advice {
		return c
	}
	own := *c
	own.Advice = group.AdviceFor(c.Container)
	own.Target = own.Estimate().Target.Only(c.Target.Has)
	return &own
}

// Wanted returns the target of the container where there is one that podfit may apply, else the request.
func (c *Container) Wanted(requests cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		if c.Applies(res) {
			requests = requests.Set(res, c.Target.Amount(res))
		}
	}
	return requests
}

// Fits reports whether the requests of all pods are within the bounds of the recommendation.
func (c *Container) Fits() bool { return c.within(c.Outside) }

// within reports whether requests are within the bounds of the recommendation.
func (c *Container) within(requests cluster.Resources) bool {
	for _, res := range cluster.All {
		if !c.Applies(res) {
			continue
		}
		have, ok := requests.Get(res)
		if lower, bounded := c.Estimate().Lower.Get(res); !ok || bounded && have < lower {
			return false
		}
		if upper, bounded := c.Estimate().Upper.Get(res); bounded && have > upper {
			return false
		}
	}
	return true
}

func (c *Container) count(size review.Size) {
	known := cluster.Find(c.pods.sets, func(s *sizeCount) bool { return s.Size == size })
	switch {
	case known != nil:
		known.pods++
	case len(c.pods.sets) < 16: // more different sizes occur only for a short time
		c.pods.sets = append(c.pods.sets, sizeCount{size, 1})
	}
}

// finish computes what depends on all pods of the row.
func (r *Row) finish(w *World) {
	for _, c := range r.Containers {
		c.finish(w.Now)
		for _, res := range cluster.All {
			if freed := c.Freed.Amount(res); freed > 0 {
				r.Freed = r.Freed.Set(res, r.Freed.Amount(res)+freed)
			}
		}
	}
	r.judge(w)
}

// judge sets the risk and its cause by the findings of podfit recommend. The container with the most severe finding is named.
func (r *Row) judge(w *World) {
	var worst *Container
	for _, c := range r.Containers {
		if c.Replicas == 0 {
			continue
		}
		r.Unjudged = cmp.Or(r.Unjudged, c.Evidence.Lacking())
		if c.Risk > r.Risk || c.Risk == r.Risk && c.Risk > review.Harmless && c.Findings[0].Kind < r.cause {
			r.Risk = c.Risk
			r.cause = c.Findings[0].Kind
			worst = c
		}
	}
	switch {
	case r.VPA != "" || r.Unjudged == "":
	case w.NoAutoscalers:
		r.Unjudged = "VPAs are not known"
	default:
		r.Unjudged = "no VPA, so its usage is not stored"
	}
	if worst == nil {
		return
	}
	r.Why = "Container " + worst.Container + ": " + strings.Join(worst.Risks(w.Now), "; ")
	if r.cause == review.Killed && r.VPA != "" && r.Unjudged == "" && r.Sized < r.Pods {
		r.Why += fmt.Sprintf("; %d of %d %s the new size", r.Sized, r.Pods, wording.Form(r.Pods, "pod has", "pods have"))
	}
}

// finish reviews the container when all of its pods are known.
func (c *Container) finish(now time.Time) {
	mostOutside := 0
	c.Outside = c.Requests
	for _, s := range c.pods.sets {
		if s.pods > mostOutside && !c.within(s.Requests) {
			mostOutside = s.pods
			c.Outside = s.Requests
		}
	}
	stored := c.Evidence
	own := *stored
	own.LearnKills(cmp.Or(c.pods.seen, new(review.Evidence)), now.Add(-review.KillWindow))
	c.pods = nil
	own.DayPeaks[0] = max(own.DayPeaks[0], c.Used.Amount(cluster.Memory))
	if at := own.KilledLast; own.Kills > 0 && !slices.ContainsFunc(c.Kills, at.Equal) {
		c.Kills = append(c.Kills, at)
	}
	slices.SortFunc(c.Kills, time.Time.Compare)
	freed, young := c.Freed, c.Young
	c.Evidence = &own
	c.Row = review.RowOf(&c.Subject)
	c.Young = young // without Targets, which are not kept, the review does not know it
	c.Targets = nil // see subjectsOf
	if len(c.Findings) == 0 && stored.Kills == 0 {
		c.Evidence = stored // what the pods show now changes nothing
	}
	for _, res := range cluster.All {
		if c.Replicas > 0 && c.Confidence > review.None && c.Request.Has.Has(res) {
			c.Freed = c.Freed.Set(res, freed.Amount(res))
		}
	}
	c.Weight = review.AssumedPrice().Of(c.Freed)
	if c.Replicas == 0 {
		c.Findings = nil
		c.Risk = review.Harmless
	}
}

// sawKill adds the OOM kill in the status of a pod.
func (c *Container) sawKill(in *cluster.Container, since time.Time) {
	const maxKills = 32 // bounds the OOM kills that a row lists per container
	if len(c.Kills) < maxKills {
		c.Kills = append(c.Kills, in.Exit.Finished)
	}
	if c.pods.seen == nil {
		c.pods.seen = new(review.Evidence)
	}
	c.pods.seen.SeeKill(in, since)
}
