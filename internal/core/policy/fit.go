// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "podfit.dev/podfit/internal/core/cluster"

// Limits is what surrounds a pod and bounds what it may be given.
type Limits struct {
	Range  cluster.LimitRange // of the pod's namespace
	Quotas *cluster.Quotas    // of the pod's namespace; nil when there are none, or nothing is known of them
}

// Fitted is what one container of a pod should run with.
type Fitted struct {
	Container string
	Index     int              // its place in spec.containers
	Estimate  cluster.Estimate // the recommendation, capped for this pod; lower ≤ target ≤ upper where bounds are set
	Requests  cluster.Resources
	Limits    cluster.Resources // only those to set: in proportion to the requests, none when limits are left alone
	Notes     []Note

	// LimitsKept says that the policy leaves the container's limits alone.
	LimitsKept bool

	// PodLevel is what the pod as a whole should have; the same in all Fitted of a pod. It sets only what is to change,
	// and is nil when nothing is (see Admissible).
	PodLevel *cluster.PodResources

	// Inserted says that nothing was recommended for the container: it stands here with its own requests because the
	// pod's LimitRange speaks of the sum of all containers, and may have changed this one too. It has no bounds.
	Inserted bool
}

// Fit returns what the containers of a pod should run with, in the order in which they stand in the pod. Containers
// that are left alone are absent: those without recommendation, those with policy Off, init containers and sidecars.
//
// The proportion of limits to requests is kept as it is in the pod: as it runs when it runs (Container.Running), as it
// was written when it is being created.
//
// First the sums over the pod are scaled into the pod LimitRange, for the target, the upper and the lower bound each on
// its own. Then, for each container and each of the three: container LimitRange, minAllowed and maxAllowed, and, where
// the policy leaves limits alone, the container's limit. Then the bounds are put in order (W-12). Last, what the API server
// would refuse is changed into what it admits (Admissible), and the target with it.
func Fit(a *cluster.Autoscaler, l Limits, p *cluster.Pod) []Fitted {
	fits := recommended(a, p, l.Range.Pod != (cluster.Range{}))
	if len(fits) == 0 {
		return nil
	}
	scaleIntoPodRange(l.Range.Pod, p, fits)
	for i := range fits {
		f := &fits[i]
		c := p.Container(f.Container)
		cp := a.Policy(f.Container)
		b := boundsOf(c, cp, l.Range.Container)
		f.Estimate.Target = b.apply(f.Estimate.Target, &f.Notes)
		f.Estimate.Lower = b.apply(f.Estimate.Lower, nil)
		f.Estimate.Upper = b.apply(f.Estimate.Upper, nil)
		f.Estimate = ordered(f.Estimate)
		f.Requests = f.Estimate.Target
		f.LimitsKept = cp != nil && cp.RequestsOnly
		if !f.LimitsKept {
			f.Limits = proportionalLimits(c, f.Requests, l.Range.Container.Default, &f.Notes)
		}
	}
	Admissible(l, p, fits)
	for i := range fits {
		f := &fits[i]
		f.Estimate.Target = f.Requests
		f.Estimate = ordered(f.Estimate)
	}
	return fits
}

// recommended returns the pod's containers with what is recommended for them, restricted to what the policy controls.
// With all, it inserts the others with their own requests; an insertion alone is no reason to touch a pod.
func recommended(a *cluster.Autoscaler, p *cluster.Pod, all bool) []Fitted {
	var fits []Fitted
	advised := false
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role != cluster.Regular {
			continue
		}
		f := Fitted{Container: c.Name, Index: int(c.Index)}
		if adv := a.AdviceFor(c.Name); adv != nil {
			controls := a.Policy(c.Name).Controls()
			f.Estimate = cluster.Estimate{
				Lower:  adv.Lower.Only(controls),
				Target: adv.Target.Only(controls),
				Upper:  adv.Upper.Only(controls),
			}
		}
		if f.Estimate.Target.Has.Empty() {
			if !all {
				continue
			}
			requests, _ := c.Running()
			if requests.Has.Empty() {
				continue
			}
			f.Estimate = cluster.Estimate{Target: requests}
			f.Inserted = true
		}
		advised = advised || !f.Inserted
		if fits == nil {
			fits = make([]Fitted, 0, len(p.Containers)-i)
		}
		fits = append(fits, f)
	}
	if !advised {
		return nil
	}
	return fits
}

// bounds hold the request of one container.
type bounds struct {
	rangeMin, rangeMax cluster.Resources // from the container LimitRange, in terms of the request
	low, high          cluster.Resources // minAllowed and maxAllowed
	limit              cluster.Resources // the container's own limits, when they are left alone
}

// boundsOf translates what bounds a container's requests and limits into bounds of its requests. Where the limit keeps
// its proportion to the request, a bound of the limit bounds the request in the same proportion, rounded down.
func boundsOf(c *cluster.Container, cp *cluster.ContainerPolicy, r cluster.Range) bounds {
	var b bounds
	requests, limits := c.Running()
	for _, res := range cluster.All {
		request, limit := requests.Amount(res), limits.Amount(res)
		if limit <= 0 {
			limit = r.Default.Amount(res)
		}
		inRequest := func(bound int64) int64 {
			switch {
			case limit <= 0:
				return 0
			case request <= 0:
				return bound
			}
			v, _ := scaled(request, bound, limit)
			return v
		}
		// Both the request and the limit must reach Min, so the higher of the two bounds holds; only the limit is
		// bounded by Max, as the request is never above it.
		if v := r.Min.Amount(res); v > 0 {
			b.rangeMin = b.rangeMin.Set(res, max(v, inRequest(v)))
		}
		if v := r.Max.Amount(res); v > 0 {
			b.rangeMax = b.rangeMax.Set(res, inRequest(v))
		}
		if cp != nil && cp.RequestsOnly && limits.Amount(res) > 0 {
			b.limit = b.limit.Set(res, limits.Amount(res))
		}
	}
	if cp != nil && !cp.Off {
		b.low, b.high = cp.MinAllowed, cp.MaxAllowed
	}
	return b
}

// apply holds amounts within the bounds in their order, and notes what it changed when notes is not nil.
func (b bounds) apply(r cluster.Resources, notes *[]Note) cluster.Resources {
	for _, step := range [...]struct {
		low, high       cluster.Resources
		raised, lowered NoteKind
	}{
		{b.rangeMin, b.rangeMax, RaisedToRangeMin, LoweredToRangeMax},
		{b.low, b.high, RaisedToMinAllowed, LoweredToMaxAllowed},
		{high: b.limit, lowered: LoweredToLimit},
	} {
		for _, res := range cluster.All {
			v, ok := r.Get(res)
			if !ok {
				continue
			}
			if low := step.low.Amount(res); low > 0 && v < low {
				v = low
				note(notes, res, step.raised)
			}
			if high := step.high.Amount(res); high > 0 && v > high {
				v = high
				note(notes, res, step.lowered)
			}
			r = r.Set(res, v)
		}
	}
	return r
}

func note(notes *[]Note, res cluster.Resource, kind NoteKind) {
	if notes != nil {
		*notes = append(*notes, Note{Resource: res, Kind: kind})
	}
}

// proportionalLimits returns the limits that keep the proportion a container has now. A resource that has no limit, nor
// a default one, gets none; when neither resource gets one, nothing is noted.
func proportionalLimits(c *cluster.Container, requests, def cluster.Resources, notes *[]Note) cluster.Resources {
	had, limits := c.Running()
	var out cluster.Resources
	var said [2]Note
	n := 0
	for _, res := range cluster.All {
		v, kind, ok := proportionalLimit(limits.Amount(res), had.Amount(res), requests.Amount(res), def.Amount(res))
		if ok {
			out = out.Set(res, v)
		}
		if kind != keptProportion {
			said[n] = Note{Resource: res, Kind: kind}
			n++
		}
	}
	if !out.Has.Empty() && n > 0 {
		*notes = append(*notes, said[:n]...)
	}
	return out
}

// keptProportion is no note at all.
const keptProportion = NoteKind(255)

// proportionalLimit returns the limit that is to a recommended request what the limit was to the request, rounded down.
// A container without limit has the default one; one with a limit and no request has the limit as its request. It
// returns false when no limit is to be set, and what is to be noted.
func proportionalLimit(limit, request, recommended, def int64) (v int64, n NoteKind, ok bool) {
	if limit <= 0 {
		limit = def
	}
	switch {
	case limit <= 0:
		return 0, NoLimitOriginally, false
	case recommended <= 0:
		return 0, NoRequestRecommended, false
	case request <= 0 || request == limit:
		return recommended, keptProportion, true
	}
	v, capped := scaled(limit, recommended, request)
	if capped {
		return v, LimitOverflow, true
	}
	return v, keptProportion, true
}
