// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admissible knows which pods the API server admits. Adjust changes the sizes of the containers of a pod so that the pod is
// admitted, and Refused and QuotaRefusal return why it is not: LimitRanges, pod-level resources and ResourceQuotas. Package policy
// computes the sizes.
//
// It does not know admission webhooks and policies of others. docs/decisions/0003-what-the-api-server-admits.md says why podfit computes
// this itself.
package admissible

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/integer"
)

// fewContainers is a number of containers that most pods do not exceed. The sizes of these pods need no allocation.
const fewContainers = 6

// A value is an amount of one resource, which may be absent.
type value struct {
	v      int64
	set    bool
	fitted bool  // fits sets it or an amount that it depends on
	off    int64 // the exact amount differs from v by less than this; 0 if v is exact
}

func valueOf(r cluster.Resources, res cluster.Resource) value {
	v, ok := r.Get(res)
	return value{v: v, set: ok}
}

func (a value) equal(b value) bool { return a.v == b.v && a.set == b.set }

// above reports whether a is above b. If the exact amounts are not known, it reports for values that fits sets whether a may be above
// b, and for other values whether a is certainly above b, because the API server has admitted them.
func (a value) above(b value) bool {
	if a.fitted || b.fitted {
		return a.rounded(1) > b.rounded(-1)
	}
	return a.rounded(-1) > b.rounded(1)
}

// rounded returns the highest possible amount if sign is 1, and the lowest if it is -1.
func (a value) rounded(sign int64) int64 { return a.v + sign*a.off }

func (a value) plus(b value) value { return value{v: integer.Sum(a.v, b.v), off: a.off + b.off} }

// A pair is a request and a limit of one resource.
type pair struct{ request, limit value }

// A rule contains the bounds of a LimitRange for a pair.
type rule struct{ low, high, ratio value }

// ruleOf returns the bounds of one resource. Amounts of the range are off by less than the given amount.
func ruleOf(within cluster.Range, ratio cluster.Resources, res cluster.Resource, off int64) rule {
	return rule{low: valueOf(within.Min, res).within(off), high: valueOf(within.Max, res).within(off), ratio: valueOf(ratio, res)}
}

// bounded returns the nearest amount between the minimum and the maximum. The maximum wins a conflict.
func (r rule) bounded(amount int64) int64 {
	if r.low.set {
		amount = max(amount, r.low.v)
	}
	if r.high.set {
		amount = min(amount, r.high.v)
	}
	return amount
}

// atMost returns the highest limit that the ratio allows for a request.
func (r rule) atMost(request int64) int64 {
	if !r.ratio.set {
		return math.MaxInt64
	}
	v, _ := integer.Scaled(request, r.ratio.v, 1000)
	if v > request && r.ratioBroken(pair{value{v: request, set: true}, value{v: v, set: true}}) {
		v-- // the API server divides floating-point numbers
	}
	return v
}

// atLeast returns the lowest request that the ratio allows for a limit.
func (r rule) atLeast(limit int64) int64 {
	if !r.ratio.set {
		return 0
	}
	v, _ := integer.ScaledUp(limit, 1000, r.ratio.v)
	if v < limit && r.ratioBroken(pair{value{v: v, set: true}, value{v: limit, set: true}}) {
		v++
	}
	return v
}

func (r rule) ratioBroken(p pair) bool {
	limit := p.limit.rounded(-1)
	request := p.request.rounded(1)
	if p.limit.fitted || p.request.fitted {
		limit = p.limit.rounded(1)
		request = max(p.request.rounded(-1), 0)
	}
	return float64(limit)/float64(request)*1000 > float64(r.ratio.v)
}

// isBelowMin reports whether an amount is below the minimum. Bounds are rounded inwards, so that they are exact for whole amounts.
func (r rule) isBelowMin(a value) bool {
	low := r.low
	if a.fitted {
		low.off = 0
	}
	return low.set && low.above(a)
}

func (r rule) isAboveMax(a value) bool {
	high := r.high
	if a.fitted {
		high.off = 0
	}
	return high.set && a.above(high)
}

// A size is the request and limit of one container for one resource, with fits set on the pod.
type size struct {
	pair
	rule
	role        cluster.ContainerRole
	name        string
	own, before pair     // own: in the spec; before: with fits, before changes
	fit         *Fitted  // nil if the container is not in fits
	sets        struct { // the amounts that fits sets, which may be changed
		request, limit bool
	}
}

// sizes contains the requests and limits of a pod for one resource.
type sizes struct {
	rule            // of the pod LimitRange
	level      pair // only grows if levelFixed
	containers []size
	levelFixed bool
	limitsKept bool // the policy of a container keeps limits, so the pod-level limit is kept, too
}

// sizesOf returns the sizes for one resource as the API server computes them. It uses the capacity of buffer if that is sufficient. An
// absent request is set to the limit, and amounts that are still absent to the default of the container LimitRange.
func sizesOf(buffer []size, limits Limits, pod *cluster.Pod, fits []Fitted, res cluster.Resource) sizes {
	off := offOf(res, pod.Fractions || limits.Range.Fractions)
	boundOff := offOf(res, limits.Range.Fractions)
	amounts := sizes{
		rule:       ruleOf(limits.Range.Pod, limits.Range.PodRatio, res, boundOff),
		containers: slices.Grow(buffer, len(pod.Containers)),
	}
	of := ruleOf(limits.Range.Container, limits.Range.ContainerRatio, res, boundOff)
	for i := range pod.Containers {
		container := &pod.Containers[i]
		amounts.containers = append(amounts.containers, size{name: container.Name, role: container.Role, rule: of})
		sized := &amounts.containers[i]
		written := pair{valueOf(container.Requests, res), valueOf(container.Limits, res)}
		sized.own = defaulted(written, limits.Range, res)
		sized.pair = written
		for j := range fits {
			if f := &fits[j]; f.Container == container.Name {
				sized.fit = f
				sized.sets.request = sized.request.setBy(f.Requests, res) || sized.sets.request
				sized.sets.limit = sized.limit.setBy(f.Limits, res) || sized.sets.limit
				amounts.limitsKept = amounts.limitsKept || f.LimitsKept
			}
		}
		sized.pair = defaulted(sized.pair, limits.Range, res)
		sized.request, sized.limit = sized.request.within(off), sized.limit.within(off)
		sized.before = sized.pair
	}
	if pod.PodLevel != nil {
		amounts.levelFixed = pod.PodLevel.Fixed
		amounts.level = pair{valueOf(pod.PodLevel.Requests, res).within(off), valueOf(pod.PodLevel.Limits, res).within(off)}
	}
	return amounts
}

// offOf returns how far the amounts of a resource may be off if they are rounded: only memory has fractions that are rounded.
func offOf(res cluster.Resource, rounded bool) int64 {
	if rounded && res == cluster.Memory {
		return 1
	}
	return 0
}

// within returns a value that differs from the exact amount by less than this, unless fits sets it.
func (a value) within(off int64) value {
	if a.set && !a.fitted {
		a.off = off
	}
	return a
}

// setBy replaces a value by an amount of fits, and reports whether there is one.
func (a *value) setBy(amounts cluster.Resources, res cluster.Resource) bool {
	v, ok := amounts.Get(res)
	if ok {
		*a = fittedValue(v)
	}
	return ok
}

// Defaulted returns the requests and limits of a container after the API server has added defaults, which it also does at each
// resize: an absent request is set to the limit, and amounts that are still absent to the default of the LimitRange.
func (l Limits) Defaulted(requests, limits cluster.Resources) (cluster.Resources, cluster.Resources) {
	for _, res := range cluster.All {
		p := defaulted(pair{valueOf(requests, res), valueOf(limits, res)}, l.Range, res)
		if p.request.set {
			requests = requests.Set(res, p.request.v)
		}
		if p.limit.set {
			limits = limits.Set(res, p.limit.v)
		}
	}
	return requests, limits
}

func defaulted(p pair, l cluster.LimitRange, res cluster.Resource) pair {
	if !p.request.set {
		p.request = p.limit
	}
	if !p.limit.set {
		p.limit = valueOf(l.Container.Default, res)
	}
	if !p.request.set {
		p.request = valueOf(l.DefaultRequest, res)
	}
	return p
}

func fittedValue(v int64) value { return value{v: v, set: true, fitted: true} }

// total returns the request and limit of the pod.
func (s *sizes) total() pair {
	var total pair
	total.request, _ = s.requests()
	total.limit, _ = s.limits()
	if s.level.request.set {
		total.request = s.level.request
	}
	if s.level.limit.set {
		total.limit = s.level.limit
	}
	return total
}

func (s *sizes) requests() (total value, running int64) {
	return s.aggregate(func(_, fitted pair) value { return fitted.request })
}

func (s *sizes) limits() (total value, running int64) {
	return s.aggregate(func(_, fitted pair) value { return fitted.limit })
}

// aggregate returns the total of a pod as the API server computes it: the maximum of the sum over containers and sidecars, and of each
// init container plus the sidecars before it. It also returns the sum over containers and sidecars.
func (s *sizes) aggregate(of func(own, fitted pair) value) (total value, running int64) {
	var sum, sidecars, first value
	for i := range s.containers {
		sized := &s.containers[i]
		amount := of(sized.own, sized.pair)
		if !amount.set {
			continue
		}
		total.set = true
		total.fitted = total.fitted || amount.fitted
		switch sized.role {
		case cluster.Regular:
			sum = sum.plus(amount)
		case cluster.Sidecar, cluster.FixedSidecar:
			sum = sum.plus(amount)
			sidecars = sidecars.plus(amount)
		case cluster.Init:
			with := sidecars.plus(amount)
			first.v = max(first.v, with.v)
			first.off = max(first.off, with.off)
		}
	}
	total.v = max(sum.v, first.v)
	highest := max(integer.Sum(sum.v, sum.off), integer.Sum(first.v, first.off))
	lowest := max(sum.rounded(-1), first.rounded(-1))
	total.off = max(highest-total.v, total.v-lowest)
	return total, sum.v
}

// Limits contains the bounds of the namespace of a pod.
type Limits struct {
	Range  cluster.LimitRange // of the pod's namespace
	Quotas *cluster.Quotas    // of the namespace of the pod; nil if there are none or they are not known
	Nodes  *fleet.Sizes       // of the nodes that may take the pod; nil if the size of a pod is not scaled down to what fits

	QuotasUnknown bool // Quotas is nil because they cannot be read, or the watch is out of date
}

// Fitted is the size that one container of a pod should have.
type Fitted struct {
	Container string            `stored:"container,required"`
	Index     int               // its index in spec.containers, or in spec.initContainers for a sidecar or init container
	Sidecar   bool              // it is in spec.initContainers
	Estimate  cluster.Estimate  // the recommendation, bounded for this pod; lower ≤ target ≤ upper if the bounds are set
	Requests  cluster.Resources `stored:"requests"`
	Limits    cluster.Resources `stored:"limits"` // only those to set: in proportion to the requests, none if limits are kept
	Notes     []Note

	// LimitsKept is true if the policy keeps the limits of the container.
	LimitsKept bool

	// LimitByPeaks is true if the memory limit is that of the recommendation, and not in proportion to the request.
	LimitByPeaks bool

	// PodLevel contains the pod-level resources to set; it is the same in all Fitted of a pod. It contains only changes, and is nil
	// if there are none (see Adjust).
	PodLevel *cluster.PodResources

	// Inserted is true if the container has no recommendation. It is included with its own requests because the pod LimitRange
	// bounds the sum over all containers, and may change this one, too. It has no bounds.
	Inserted bool `stored:"inserted"`
}

// SizeOf returns the requests and limits in the spec of a container with fits set on it.
func SizeOf(c *cluster.Container, fits []Fitted) (requests, limits cluster.Resources) {
	for i := range fits {
		if fits[i].Container == c.Name {
			return fits[i].Requests.Or(c.Requests), fits[i].Limits.Or(c.Limits)
		}
	}
	return c.Requests, c.Limits
}

// PodLevelOf returns the pod-level resources of a pod with fits set on it; nil if it has none.
func PodLevelOf(p *cluster.Pod, fits []Fitted) *cluster.PodResources {
	if p.PodLevel == nil || len(fits) == 0 || fits[0].PodLevel == nil {
		return p.PodLevel
	}
	to := fits[0].PodLevel
	return &cluster.PodResources{Requests: to.Requests.Or(p.PodLevel.Requests), Limits: to.Limits.Or(p.PodLevel.Limits), Fixed: p.PodLevel.Fixed}
}

// QoSOf returns the class a pod has by its spec, with fits and the defaults of LimitRanges set on it.
func QoSOf(around Limits, p *cluster.Pod, fits []Fitted) cluster.QoS {
	var requests, limits cluster.Resources
	guaranteed := true
	if level := PodLevelOf(p, fits); level != nil { // the containers' amounts do not determine the class
		requests = level.Requests
		limits = level.Limits
		guaranteed = limits.CPU > 0 && limits.Memory > 0
	} else {
		for i := range p.Containers {
			r, l := around.Defaulted(SizeOf(&p.Containers[i], fits))
			guaranteed = guaranteed && l.CPU > 0 && l.Memory > 0
			requests, limits = requests.Add(r), limits.Add(l)
		}
	}
	switch {
	case requests.CPU == 0 && requests.Memory == 0 && limits.CPU == 0 && limits.Memory == 0:
		return cluster.BestEffort
	case guaranteed && requests.CPU == limits.CPU && requests.Memory == limits.Memory:
		return cluster.Guaranteed
	}
	return cluster.Burstable
}
