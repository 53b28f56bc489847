// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/integer"
)

// Limits contains the bounds of the namespace of a pod.
type Limits struct {
	Range  cluster.LimitRange // of the pod's namespace
	Quotas *cluster.Quotas    // of the namespace of the pod; nil if there are none or they are not known
	Nodes  *fleet.Sizes       // of the nodes that may take the pod; nil if the size of a pod is not scaled down to what fits

	QuotasUnknown bool // Quotas is nil because they cannot be read, or the watch is out of date
}

// Fitted is the size that one container of a pod should have.
type Fitted struct {
	Container string
	Index     int              // its index in spec.containers
	Estimate  cluster.Estimate // the recommendation, bounded for this pod; lower ≤ target ≤ upper if the bounds are set
	Requests  cluster.Resources
	Limits    cluster.Resources // only those to set: in proportion to the requests, none if limits are kept
	Notes     []Note

	// LimitsKept is true if the policy keeps the limits of the container.
	LimitsKept bool

	// PodLevel contains the pod-level resources to set; it is the same in all Fitted of a pod. It contains only changes, and is nil
	// if there are none (see Admissible).
	PodLevel *cluster.PodResources

	// Inserted is true if the container has no recommendation. It is included with its own requests because the pod LimitRange
	// bounds the sum over all containers, and may change this one, too. It has no bounds.
	Inserted bool
}

// Fit returns the sizes that the containers of a pod should have, in the order of the pod. It does not contain containers that are not
// changed: those without recommendation, those with policy Off, init containers and sidecars. It leaves out the resources by which an HPA
// scales the pods, see HorizontalOf.
//
// Limits keep their ratio to requests: for a running pod the ratio with which it runs (Container.Running), for a pod that is being
// created the ratio in its spec.
//
// First, the sums over the pod are scaled into the pod LimitRange, separately for the target, the upper and the lower bound. Then each
// of the three is bounded for each container by the container LimitRange, minAllowed and maxAllowed, and, if the policy keeps
// limits, the limit of the container. Then a target by which an HPA scales is kept within the range of its scale point, and the order of
// the bounds is restored (W-12 in docs/migrate.md). If the autoscaler has guards for language runtimes, the targets are kept away from
// amounts that the runtime of the container misreads, see guardRuntimes. Admissible changes sizes that the API server would refuse, and the
// target accordingly. Finally, if l.Nodes is set, a pod that fits on no node is scaled down, see scaleToNode. If a later step moves a
// request by which an HPA scales out of the range of its scale point, podfit leaves these requests alone.
//
// FitBounds returns the bounds, too.
func Fit(a *cluster.Autoscaler, l Limits, p *cluster.Pod) []Fitted { return fitted(a, l, p, nil) }

// fitted is Fit. Unless looked is nil, it collects the bounds.
func fitted(a *cluster.Autoscaler, l Limits, p *cluster.Pod, looked *lookedAt) []Fitted {
	fits := fit(a, l, p, looked)
	if keepsScalePoints(a, p, fits) {
		return fits
	}
	without := *a
	without.PreserveScalePoint = false
	return fit(&without, l, p, looked)
}

func fit(a *cluster.Autoscaler, l Limits, p *cluster.Pod, looked *lookedAt) []Fitted {
	fits := boundedEstimates(a, l, p, looked)
	settle(a, l, p, fits)
	looked.after(fits, APIServer, cluster.Resources{})
	fits = scaleToNode(a, l, p, fits)
	looked.scaledToNode(l, fits)
	return fits
}

// boundedEstimates returns the containers with their estimates within all bounds of containers, and without sizes.
func boundedEstimates(a *cluster.Autoscaler, l Limits, p *cluster.Pod, looked *lookedAt) []Fitted {
	fits := recommended(a, p, l.Range.Pod != (cluster.Range{}))
	looked.begin(fits)
	if len(fits) == 0 {
		return nil
	}
	scaleIntoPodRange(l.Range.Pod, p, fits)
	looked.after(fits, PodRange, l.Range.Pod.Max.Or(l.Range.Pod.Min))
	for i := range fits {
		f := &fits[i]
		c := p.Container(f.Container)
		cp := a.Policy(f.Container)
		b := boundsOf(c, cp, l.Range.Container)
		f.Estimate.Target = b.apply(f.Estimate.Target, &f.Notes, looked.of(i))
		f.Estimate.Lower = b.apply(f.Estimate.Lower, nil, nil)
		f.Estimate.Upper = b.apply(f.Estimate.Upper, nil, nil)
	}
	looked.proceed(fits)
	fits = holdScalePoints(a, p, fits, func(f *Fitted, res cluster.Resource, v int64) int64 {
		b := boundsOf(p.Container(f.Container), a.Policy(f.Container), l.Range.Container)
		return b.apply(cluster.Resources{}.Set(res, v), nil, nil).Amount(res)
	})
	looked.after(fits, ScalePoint, cluster.Resources{})
	guardRuntimes(a, l, p, fits, looked)
	return fits
}

// settle sets the sizes of the containers in place by their targets.
func settle(a *cluster.Autoscaler, l Limits, p *cluster.Pod, fits []Fitted) {
	for i := range fits {
		f := &fits[i]
		c := p.Container(f.Container)
		cp := a.Policy(f.Container)
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
}

// recommended returns the containers of the pod with their recommendations, restricted to the resources that the policy controls.
// If all is true, it inserts the other containers with their own requests. It returns nothing if there are only insertions.
func recommended(a *cluster.Autoscaler, p *cluster.Pod, all bool) []Fitted {
	var fits []Fitted
	advised := false
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role != cluster.Regular {
			continue
		}
		f := Fitted{Container: c.Name, Index: int(c.Index)}
		left := leftToHPA(a, c.Name)
		if adv := a.AdviceFor(c.Name); adv != nil {
			controls := a.Policy(c.Name).Controls() &^ left
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
			requests = requests.Only(requests.Has &^ left)
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

// bounds contains the bounds of the request of one container.
type bounds struct {
	rangeMin, rangeMax cluster.Resources // from the container LimitRange, in terms of the request
	low, high          cluster.Resources // minAllowed and maxAllowed
	limit              cluster.Resources // the limits of the container, if they are kept
}

// boundsOf converts the bounds of the requests and limits of a container into bounds of its requests. If the limit keeps its ratio to
// the request, a bound of the limit bounds the request in the same ratio, rounded down.
func boundsOf(c *cluster.Container, containerPolicy *cluster.ContainerPolicy, limitRange cluster.Range) bounds {
	var result bounds
	requests, limits := c.Running()
	for _, res := range cluster.All {
		request, limit := requests.Amount(res), limits.Amount(res)
		if limit <= 0 {
			limit = limitRange.Default.Amount(res)
		}
		inRequest := func(bound int64) int64 {
			switch {
			case limit <= 0:
				return 0
			case request <= 0:
				return bound
			}
			v, _ := integer.Scaled(request, bound, limit)
			return v
		}
		// Min bounds both the request and the limit, so the higher of the two bounds applies. Max needs to bound only the
		// limit, because the request is never above it.
		if v := limitRange.Min.Amount(res); v > 0 {
			result.rangeMin = result.rangeMin.Set(res, max(v, inRequest(v)))
		}
		if v := limitRange.Max.Amount(res); v > 0 {
			result.rangeMax = result.rangeMax.Set(res, inRequest(v))
		}
		if containerPolicy != nil && containerPolicy.RequestsOnly && limits.Amount(res) > 0 {
			result.limit = result.limit.Set(res, limits.Amount(res))
		}
	}
	if containerPolicy != nil && !containerPolicy.Off {
		result.low, result.high = containerPolicy.MinAllowed, containerPolicy.MaxAllowed
	}
	return result
}

// apply applies the bounds to amounts, in their order. It appends its changes to notes, and the bounds to looked, unless these are nil.
func (b bounds) apply(amounts cluster.Resources, notes *[]Note, looked *[]Bound) cluster.Resources {
	for _, step := range [...]struct {
		low, high       cluster.Resources
		raised, lowered NoteKind
		least, most     BoundKind
	}{
		{b.rangeMin, b.rangeMax, RaisedToRangeMin, LoweredToRangeMax, RangeMin, RangeMax},
		{b.low, b.high, RaisedToMinAllowed, LoweredToMaxAllowed, MinAllowed, MaxAllowed},
		{high: b.limit, lowered: LoweredToLimit, most: ContainerLimit},
	} {
		for _, res := range cluster.All {
			amount, ok := amounts.Get(res)
			if !ok {
				continue
			}
			before := amount
			low := step.low.Amount(res)
			if low > 0 && amount < low {
				amount = low
				note(notes, res, step.raised)
			}
			if step.least != "" {
				look(looked, Bound{Resource: res, Kind: step.least, Amount: low, Before: before, After: amount})
			}
			before = amount
			high := step.high.Amount(res)
			if high > 0 && amount > high {
				amount = high
				note(notes, res, step.lowered)
			}
			look(looked, Bound{Resource: res, Kind: step.most, Amount: high, Before: before, After: amount})
			amounts = amounts.Set(res, amount)
		}
	}
	return amounts
}

func note(notes *[]Note, res cluster.Resource, kind NoteKind) {
	if notes != nil {
		*notes = append(*notes, Note{Resource: res, Kind: kind})
	}
}

// proportionalLimits returns the limits that keep the current ratio of a container. A resource that has neither a limit nor
// a default limit gets none. If no resource gets a limit, there are no notes.
func proportionalLimits(c *cluster.Container, requests, def cluster.Resources, notes *[]Note) cluster.Resources {
	had, limits := c.Running()
	var out cluster.Resources
	var said [2]Note
	count := 0
	for _, res := range cluster.All {
		amount, kind, ok := proportionalLimit(limits.Amount(res), had.Amount(res), requests.Amount(res), def.Amount(res))
		if ok {
			out = out.Set(res, amount)
		}
		if kind != keptProportion {
			said[count] = Note{Resource: res, Kind: kind}
			count++
		}
	}
	if !out.Has.Empty() && count > 0 {
		*notes = append(*notes, said[:count]...)
	}
	return out
}

// keptProportion means that there is no note.
const keptProportion = NoteKind(255)

// proportionalLimit returns the limit that has the same ratio to a recommended request as the current limit to the current request,
// rounded down. An absent limit is the default limit; an absent request is the limit. It also returns the note, and false if
// no limit is to be set.
func proportionalLimit(limit, request, recommended, def int64) (amount int64, kind NoteKind, ok bool) {
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
	amount, capped := integer.Scaled(limit, recommended, request)
	if capped {
		return amount, LimitOverflow, true
	}
	return amount, keptProportion, true
}
