// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A Refusal is the reason why the API server would refuse a pod. The zero value means that it would admit the pod.
type Refusal struct {
	Kind       RefusalKind
	Resource   cluster.Resource
	Container  string // "" if the refusal applies to the whole pod
	Have, Want int64  // the amount of the pod, and the bound that it violates
	Quota      string // the ResourceQuota that refuses the pod
	OfLimit    bool   // a ResourceQuota refuses the sum of the limits, not of the requests
	Rounded    bool   // Have and Want may be off by less than a byte each, because amounts in the pod or LimitRange are not whole bytes
}

// RefusalKind is the kind of a refusal: its sentence, without final period. Refusal.String replaces the names in braces.
type RefusalKind string

// The kinds of refusals.
const (
	NotRefused         RefusalKind = ""
	RequestAboveLimit  RefusalKind = "the {resource} request {have} of {who} is above its limit {want}"
	RequestMissing     RefusalKind = "{who} has no {resource} request, and a LimitRange requires one"
	LimitMissing       RefusalKind = "{who} has no {resource} limit, and a LimitRange requires one"
	RequestBelowMin    RefusalKind = "the {resource} request {have} of {who} is below the minimum {want} of a LimitRange"
	LimitBelowMin      RefusalKind = "the {resource} limit {have} of {who} is below the minimum {want} of a LimitRange"
	RequestAboveMax    RefusalKind = "the {resource} request {have} of {who} is above the maximum {want} of a LimitRange"
	LimitAboveMax      RefusalKind = "the {resource} limit {have} of {who} is above the maximum {want} of a LimitRange"
	AboveRatio         RefusalKind = "the {resource} limit of {who} is {times} times its request, and a LimitRange allows {allowed} times" // Have and Want are in thousandths
	SumAbovePodLevel   RefusalKind = "the containers request {have} of {resource} together, and the pod-level request is {want}"
	LimitAbovePodLevel RefusalKind = "the {resource} limit {have} of {who} is above the pod-level limit {want}"
	OverQuota          RefusalKind = "the {resource} {what} of the pod are {have}, and ResourceQuota {quota} has {left} left"
	QuotaRequires      RefusalKind = "ResourceQuota {quota} requires {resource} {what} of every container"
	QuotaNotCounted    RefusalKind = "the status of ResourceQuota {quota} has no used amounts yet"
	NoPodLeft          RefusalKind = "ResourceQuota {quota} does not allow another pod" // it only counts the pod with its new size
	TooManyQuotas      RefusalKind = "the namespace has more than {most} ResourceQuotas, and podfit evaluates no more"
)

// Refused reports whether the API server would refuse the pod.
func (r Refusal) Refused() bool { return r.Kind != NotRefused }

// OfLimitRange reports whether a LimitRange refuses the pod.
func (k RefusalKind) OfLimitRange() bool {
	return slices.Contains([]RefusalKind{RequestMissing, LimitMissing, RequestBelowMin, LimitBelowMin, RequestAboveMax, LimitAboveMax, AboveRatio}, k)
}

// String returns the refusal as a sentence without final period.
func (r Refusal) String() string {
	who := "the pod"
	if r.Container != "" {
		who = "container " + r.Container
	}
	what := "requests"
	if r.OfLimit {
		what = "limits"
	}
	text := strings.NewReplacer(
		"{resource}", r.Resource.String(), "{who}", who, "{what}", what, "{quota}", r.Quota, "{most}", strconv.Itoa(cluster.MostQuotas),
		"{have}", cluster.Format(r.Resource, r.Have), "{want}", cluster.Format(r.Resource, r.Want), "{left}", cluster.Format(r.Resource, max(r.Want, 0)),
		"{times}", fmt.Sprintf("%.3g", float64(r.Have)/1000), "{allowed}", fmt.Sprintf("%.3g", float64(r.Want)/1000),
	).Replace(string(r.Kind))
	if r.Rounded {
		text += " (rounded: the pod or the LimitRange has memory amounts that are not whole bytes)"
	}
	return text
}

// Refused returns why the API server would refuse a pod with fits set on it. It considers CPU and memory, the LimitRanges of the
// namespace and the pod-level resources. It does not consider quotas (see QuotaRefusal) and admission webhooks.
func Refused(l Limits, p *cluster.Pod, fits []Fitted) Refusal {
	for _, res := range cluster.All {
		if r := RefusedOf(l, p, fits, res); r.Refused() {
			return r
		}
	}
	return Refusal{}
}

// RefusedOf is Refused for one resource.
func RefusedOf(l Limits, p *cluster.Pod, fits []Fitted, res cluster.Resource) Refusal {
	var few [fewContainers]size
	s := sizesOf(few[:0], l, p, fits, res)
	s.setLevel(p, fits, res)
	r := s.refusal()
	if r.Refused() {
		r.Resource = res
		r.Rounded = res == cluster.Memory && (p.Fractions || l.Range.Fractions)
	}
	return r
}

func (s *sizes) setLevel(p *cluster.Pod, fits []Fitted, res cluster.Resource) {
	if p.PodLevel == nil || len(fits) == 0 || fits[0].PodLevel == nil {
		return
	}
	s.level.request.setBy(fits[0].PodLevel.Requests, res)
	s.level.limit.setBy(fits[0].PodLevel.Limits, res)
}

func (s *sizes) refusal() Refusal {
	for i := range s.containers {
		z := &s.containers[i]
		r := z.rule.broken(z.pair)
		switch {
		case r.Refused():
		case z.request.set && z.limit.set && z.request.above(z.limit):
			r = Refusal{Kind: RequestAboveLimit, Have: z.request.v, Want: z.limit.v}
		case z.role == cluster.Regular && z.limit.set && s.level.limit.set && z.limit.above(s.level.limit):
			r = Refusal{Kind: LimitAbovePodLevel, Have: z.limit.v, Want: s.level.limit.v}
		}
		if r.Refused() {
			r.Container = z.name
			return r
		}
	}
	s.defaultLevel()
	if sum, _ := s.requests(); s.level.request.set && sum.above(s.level.request) {
		return Refusal{Kind: SumAbovePodLevel, Have: sum.v, Want: s.level.request.v}
	}
	if s.level.limit.set && s.level.request.above(s.level.limit) {
		return Refusal{Kind: RequestAboveLimit, Have: s.level.request.v, Want: s.level.limit.v}
	}
	return s.broken(s.total())
}

// defaultLevel sets the pod-level request that the API server sets if only the limit is given.
func (s *sizes) defaultLevel() {
	if s.level.limit.set && !s.level.request.set {
		s.level.request = s.level.limit
		if sum, _ := s.requests(); sum.set {
			s.level.request = sum
		}
	}
}

// broken returns the bound of a LimitRange that a pair violates.
func (r rule) broken(amounts pair) Refusal {
	switch {
	case (r.low.set || r.ratio.set) && !amounts.request.set, r.ratio.set && amounts.request.v == 0:
		return Refusal{Kind: RequestMissing}
	case (r.high.set || r.ratio.set) && !amounts.limit.set, r.ratio.set && amounts.limit.v == 0:
		return Refusal{Kind: LimitMissing}
	case r.isBelowMin(amounts.request):
		return Refusal{Kind: RequestBelowMin, Have: amounts.request.v, Want: r.low.v}
	case amounts.limit.set && r.isBelowMin(amounts.limit):
		return Refusal{Kind: LimitBelowMin, Have: amounts.limit.v, Want: r.low.v}
	case r.isAboveMax(amounts.limit):
		return Refusal{Kind: LimitAboveMax, Have: amounts.limit.v, Want: r.high.v}
	case amounts.request.set && r.isAboveMax(amounts.request):
		return Refusal{Kind: RequestAboveMax, Have: amounts.request.v, Want: r.high.v}
	case r.ratio.set && r.ratioBroken(amounts):
		have, _ := integer.Scaled(amounts.limit.v, 1000, amounts.request.v)
		return Refusal{Kind: AboveRatio, Have: have, Want: r.ratio.v}
	}
	return Refusal{}
}

// A Note is a change between a recommendation and the size that a container gets, or a reason why an amount was not set.
type Note struct {
	Resource cluster.Resource
	Kind     NoteKind
}

// NoteKind is the kind of a note: its text in the annotation vpaUpdates, which tools read. The texts are identical to upstream's, except the last
// eight, which upstream does not have.
type NoteKind string

// The kinds of notes.
const (
	RaisedToRangeMin     NoteKind = " capped to fit Min in container LimitRange"
	LoweredToRangeMax    NoteKind = " capped to fit Max in container LimitRange"
	RaisedForLimit       NoteKind = " raised so that the limit is above the highest usage"
	RaisedToMinAllowed   NoteKind = " capped to minAllowed"
	LoweredToMaxAllowed  NoteKind = " capped to maxAllowed"
	LoweredToLimit       NoteKind = " capped to container limit" // the policy keeps limits
	NoLimitOriginally    NoteKind = ": limit NOT set since originalLimit is nil or 0"
	NoRequestRecommended NoteKind = ": limit NOT set since recommendedRequest is nil or 0"            // so no limit is derived from it
	LimitOverflow        NoteKind = ": failed to keep limit to request ratio; capping limit to int64" // the limit does not fit into an int64
	HeldToAdmitted       NoteKind = " capped to what the API server admits"
	HeldToScalePoint     NoteKind = " capped to keep the scale point of the HorizontalPodAutoscaler" // the target of an HPA cannot follow a further change
	HeldToNode           NoteKind = " capped to the largest node for the pod"
	HeldToQuota          NoteKind = " capped to what the ResourceQuota allows"   // even if no other pod used it
	RaisedOutOfBand      NoteKind = " raised above a range that a JVM misreads"  // a JVM could read the request as all cores of the node
	LoweredOutOfBand     NoteKind = " lowered below a range that a JVM misreads" // the same, and a bound does not allow more
	RaisedToHeap         NoteKind = " raised to the heap of the JVM"             // the options of a JVM set a larger heap
	LoweredToContainers  NoteKind = " capped to the sum of the other containers" // an init container costs nothing within the sum of the other containers
)

// String returns the text of the note in the annotation vpaUpdates.
func (n Note) String() string { return n.Resource.String() + string(n.Kind) }
