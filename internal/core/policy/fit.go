// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy computes the requests and limits of containers from recommendations. It bounds a recommendation by the container
// policy of the user, the LimitRanges of the namespace and the limits of the pod, and returns what it changed as notes.
//
// The recommender uses Cap, which depends on the autoscaler only. The updater and the webhook use Fit, which also depends on the
// pod, so that the updater expects the size that the webhook sets on a new pod.
//
// All functions accept any input: containers without recommendation, requests or policy, absent bounds and extreme amounts give a
// result and no panic. Package plan decides whether a pod is changed.
package policy

import (
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// The values that the steps change are those of package admissible, which changes them last.
type (
	// Limits contains the bounds of the namespace of a pod.
	Limits = admissible.Limits
	// Fitted is the size that one container of a pod should have.
	Fitted = admissible.Fitted
	// A Note is a change between a recommendation and the size that a container gets.
	Note = admissible.Note
)

// Fit returns the sizes that the containers of a pod should have, in the order of the pod. It does not contain containers that are not
// changed: those without recommendation, those with policy Off, init containers (FitInit) and fixed sidecars. It leaves out the resources by which an HPA
// scales the pods, see HorizontalOf.
//
// Limits keep their ratio to requests: for a running pod the ratio with which it runs (Container.Running), for a pod that is being
// created the ratio in its spec. Memory limits may have another rule, see MemoryLimitOf.
//
// First, the sums over the pod are scaled into the pod LimitRange, separately for the target, the upper and the lower bound. Then each
// of the three is bounded for each container by the container LimitRange, minAllowed and maxAllowed, and, if the policy keeps
// limits, the limit of the container. Then a target by which an HPA scales is kept within the range of its scale point, and the order of
// the bounds is restored (W-12 in docs/migrate.md). If the autoscaler has guards for language runtimes, the targets are kept away from
// amounts that the runtime of the container misreads, see guardRuntimes. admissible.Adjust changes sizes that the API server would refuse, and the
// target accordingly. Finally, if l.Nodes is set, a pod that fits on no node is scaled down, see scaleToNode. If a later step moves a
// request by which an HPA scales out of the range of its scale point, podfit leaves these requests alone.
//
// FitBounds returns the bounds, too.
func Fit(a *cluster.Autoscaler, l Limits, p *cluster.Pod) []Fitted {
	return fitting{a: a, l: l, p: p}.sized()
}

// A fitting is a pod whose sizes are computed.
type fitting struct {
	a      *cluster.Autoscaler
	l      Limits
	p      *cluster.Pod
	fits   []Fitted  // the sizes after the last step
	looked *lookedAt // collects the bounds; nil if they are not needed
}

// A step changes the sizes of a pod, and returns those of the containers that are still changed.
type step func(fitting) []Fitted

// targetSteps are the steps from the recommendations to targets within all bounds of containers.
var targetSteps = [...]step{
	recommended,       // the recommendations of the containers, without sizes
	scaleIntoPodRange, // the sums over the pod are within the pod LimitRange
	boundContainers,   // the container LimitRange, minAllowed, maxAllowed, and limits that are kept
	holdScalePoints,   // the targets of HPAs can follow
	guardRuntimes,     // no language runtime misreads the amounts
}

// sizeSteps are the steps from the targets to sizes.
var sizeSteps = [...]step{
	settle,      // the API server admits the pod
	scaleToNode, // a node can take the pod
}

// through returns the fitting after some steps. They end when no container is changed.
func (f fitting) through(steps []step) fitting {
	for _, next := range steps {
		f.fits = next(f)
		if len(f.fits) == 0 {
			break
		}
	}
	return f
}

func (f fitting) sized() []Fitted {
	fits := f.through(targetSteps[:]).through(sizeSteps[:]).fits
	if keepsScalePoints(f.a, f.p, fits) {
		return fits
	}
	without := *f.a
	without.PreserveScalePoint = false
	f.a = &without
	return f.through(targetSteps[:]).through(sizeSteps[:]).fits
}

func (f fitting) boundsOf(container string, least float64) bounds {
	c := f.p.Container(container)
	return boundsOf(c, f.a.Policy(container), f.l.Range, MemoryLimitOf(f.a, f.l, f.p, c), leastLimit(f.a, container, least))
}

// boundContainers moves the estimates of each container into its bounds.
func boundContainers(f fitting) []Fitted {
	for i := range f.fits {
		fit := &f.fits[i]
		lower, target, upper := f.boundsOf(fit.Container, lowerLeast), f.boundsOf(fit.Container, targetLeast), f.boundsOf(fit.Container, upperLeast)
		fit.Estimate.Target = target.apply(fit.Estimate.Target, &fit.Notes, f.looked.of(i))
		fit.Estimate.Lower = lower.apply(fit.Estimate.Lower, nil, nil)
		fit.Estimate.Upper = upper.apply(fit.Estimate.Upper, nil, nil)
	}
	f.looked.proceed(f.fits)
	return f.fits
}

// settle sets the sizes of the containers by their targets, so that the API server admits them.
func settle(f fitting) []Fitted {
	for i := range f.fits {
		fit := &f.fits[i]
		cp := f.a.Policy(fit.Container)
		fit.Estimate = ordered(fit.Estimate)
		fit.Requests = fit.Estimate.Target
		fit.LimitsKept = cp != nil && cp.RequestsOnly
		if !fit.LimitsKept {
			c := f.p.Container(fit.Container)
			fit.Limits = proportionalLimits(c, fit.Requests, f.l.Range.Container.Default, &fit.Notes)
			f.setMemoryLimit(fit, c)
		}
	}
	admissible.Adjust(f.l, f.p, f.fits)
	for i := range f.fits {
		fit := &f.fits[i]
		fit.Estimate.Target = fit.Requests
		fit.Estimate = ordered(fit.Estimate)
	}
	f.looked.after(f.fits, APIServer, cluster.Resources{})
	return f.fits
}

// recommended returns the containers of the pod with their recommendations, restricted to the resources that the policy controls.
// If the namespace has a pod LimitRange, it inserts the other regular containers with their own requests. It returns nothing if there are only
// insertions.
func recommended(f fitting) []Fitted {
	var fits []Fitted
	advised := false
	for i := range f.p.Containers {
		c := &f.p.Containers[i]
		fit := f.recommendation(c)
		if fit.Estimate.Target.Has.Empty() {
			continue
		}
		advised = advised || !fit.Inserted
		if fits == nil {
			fits = make([]Fitted, 0, len(f.p.Containers)-i)
		}
		fits = append(fits, fit)
	}
	if !advised {
		fits = nil
	}
	f.looked.begin(fits)
	return fits
}

// recommendation returns one container with its recommendation. The target is empty if the container is not changed.
func (f fitting) recommendation(c *cluster.Container) Fitted {
	fit := Fitted{Container: c.Name, Index: int(c.Index), Sidecar: c.Role == cluster.Sidecar}
	if !c.IsSized() {
		return fit
	}
	left := leftToHPA(f.a, c.Name)
	if adv := f.a.AdviceFor(c.Name); adv != nil {
		controls := f.a.Policy(c.Name).Controls() &^ left
		fit.Estimate = cluster.Estimate{
			Lower:  adv.Lower.Only(controls),
			Target: adv.Target.Only(controls),
			Upper:  adv.Upper.Only(controls),
		}
	}
	if fit.Estimate.Target.Has.Empty() && f.l.Range.Pod != (cluster.Range{}) && !fit.Sidecar {
		requests, _ := c.Running()
		fit.Estimate = cluster.Estimate{Target: requests.Only(requests.Has &^ left)}
		fit.Inserted = true
	}
	return fit
}

// boundsOf converts the bounds of the requests and limits of a container into bounds of its requests, in the order in which they apply.
// If the limit keeps its ratio to the request, a bound of the limit bounds the request in the same ratio, rounded down. Else the request is
// bounded by the limit that is kept, or by the maximum of the limit. The memory limit does not fall below leastLimit.
func boundsOf(c *cluster.Container, containerPolicy *cluster.ContainerPolicy, ranges cluster.LimitRange, memory MemoryLimitKind, leastLimit int64) bounds {
	limitRange := ranges.Container
	result := bounds{
		{raised: admissible.RaisedForLimit, least: LimitOfPeak},
		{raised: admissible.RaisedToRangeMin, lowered: admissible.LoweredToRangeMax, least: RangeMin, most: RangeMax},
		{raised: admissible.RaisedToMinAllowed, lowered: admissible.LoweredToMaxAllowed, least: MinAllowed, most: MaxAllowed},
		{lowered: admissible.LoweredToLimit, most: ContainerLimit}, // if the policy keeps limits
	}
	least := &result[0]
	inRange := &result[1]
	allowed := &result[2]
	kept := &result[3]
	requests, limits := c.Running()
	for _, res := range cluster.All {
		request := requests.Amount(res)
		limit := limits.Amount(res)
		if limit <= 0 {
			limit = limitRange.Default.Amount(res)
		}
		inRequest := func(bound int64) int64 {
			switch {
			case limit <= 0:
				return 0
			case request <= 0, res == cluster.Memory && memory.isApart():
				return bound
			}
			v, _ := integer.Scaled(request, bound, limit)
			return v
		}
		if res == cluster.Memory && leastLimit > 0 && memory.needsRequest() {
			least.low = least.low.Set(res, inRequest(leastLimit))
		}
		// Min bounds both the request and the limit, so the higher of the two bounds applies. Max needs to bound only the
		// limit, because the request is never above it.
		if v := limitRange.Min.Amount(res); v > 0 {
			inRange.low = inRange.low.Set(res, max(v, inRequest(v)))
		}
		if v := limitRange.Max.Amount(res); v > 0 {
			inRange.high = inRange.high.Set(res, inRequest(v))
		}
		if containerPolicy != nil && containerPolicy.RequestsOnly && limits.Amount(res) > 0 {
			kept.high = kept.high.Set(res, limits.Amount(res))
		}
	}
	if ratio := ranges.ContainerRatio.Memory; memory == LimitByPeaks && ratio > 0 {
		low, _ := integer.Scaled(1000, leastLimit, ratio)
		least.low = least.low.Set(cluster.Memory, low)
	}
	switch most := limitRange.Max.Memory; {
	case memory == LimitByPeaks && most > 0:
		inRange.high.Memory = max(most-page, 1)
	case memory == LimitUnchanged:
		kept.high = kept.high.Set(cluster.Memory, max(limits.Memory-page, 1))
	}
	if containerPolicy != nil && !containerPolicy.Off {
		allowed.low = containerPolicy.MinAllowed
		allowed.high = containerPolicy.MaxAllowed
	}
	return result
}

func note(notes *[]Note, res cluster.Resource, kind admissible.NoteKind) {
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
const keptProportion admissible.NoteKind = ""

// proportionalLimit returns the limit that has the same ratio to a recommended request as the current limit to the current request,
// rounded down. An absent limit is the default limit; an absent request is the limit. It also returns the note, and false if
// no limit is to be set.
func proportionalLimit(limit, request, recommended, def int64) (amount int64, kind admissible.NoteKind, ok bool) {
	if limit <= 0 {
		limit = def
	}
	switch {
	case limit <= 0:
		return 0, admissible.NoLimitOriginally, false
	case recommended <= 0:
		return 0, admissible.NoRequestRecommended, false
	case request <= 0 || request == limit:
		return recommended, keptProportion, true
	}
	amount, capped := integer.Scaled(limit, recommended, request)
	if capped {
		return amount, admissible.LimitOverflow, true
	}
	return amount, keptProportion, true
}
