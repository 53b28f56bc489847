// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import (
	"fmt"
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

// RefusalKind is the kind of a refusal.
type RefusalKind uint8

// The kinds of refusals. Those from RequestMissing to AboveRatio are of LimitRanges.
const (
	NotRefused RefusalKind = iota
	RequestAboveLimit
	RequestMissing     // a LimitRange has a minimum or a ratio
	LimitMissing       // a LimitRange has a maximum or a ratio
	RequestBelowMin    // of a LimitRange
	LimitBelowMin      // of a LimitRange
	RequestAboveMax    // of a LimitRange
	LimitAboveMax      // of a LimitRange
	AboveRatio         // maxLimitRequestRatio of a LimitRange; Have and Want are in thousandths
	SumAbovePodLevel   // the sum of the container requests is above the pod-level request
	LimitAbovePodLevel // the limit of a container is above that of the pod
	OverQuota          // the pod requests more than a ResourceQuota has left
	QuotaRequires      // a ResourceQuota requires an amount that a container does not set
	QuotaNotCounted    // a ResourceQuota has no status yet
	NoPodLeft          // a ResourceQuota that only counts the pod with its new size allows no more pods
	TooManyQuotas      // there are more ResourceQuotas than are evaluated
)

// Refused reports whether the API server would refuse the pod.
func (r Refusal) Refused() bool { return r.Kind != NotRefused }

// OfLimitRange reports whether a LimitRange refuses the pod.
func (k RefusalKind) OfLimitRange() bool { return RequestMissing <= k && k <= AboveRatio }

// refusalTexts are the sentences of the kinds, without final period. String replaces the names in braces.
var refusalTexts = [...]string{
	RequestAboveLimit:  "the {resource} request {have} of {who} is above its limit {want}",
	RequestMissing:     "{who} has no {resource} request, and a LimitRange requires one",
	LimitMissing:       "{who} has no {resource} limit, and a LimitRange requires one",
	RequestBelowMin:    "the {resource} request {have} of {who} is below the minimum {want} of a LimitRange",
	LimitBelowMin:      "the {resource} limit {have} of {who} is below the minimum {want} of a LimitRange",
	RequestAboveMax:    "the {resource} request {have} of {who} is above the maximum {want} of a LimitRange",
	LimitAboveMax:      "the {resource} limit {have} of {who} is above the maximum {want} of a LimitRange",
	AboveRatio:         "the {resource} limit of {who} is {times} times its request, and a LimitRange allows {allowed} times",
	SumAbovePodLevel:   "the containers request {have} of {resource} together, and the pod-level request is {want}",
	LimitAbovePodLevel: "the {resource} limit {have} of {who} is above the pod-level limit {want}",
	OverQuota:          "the {resource} {what} of the pod are {have}, and ResourceQuota {quota} has {left} left",
	QuotaRequires:      "ResourceQuota {quota} requires {resource} {what} of every container",
	QuotaNotCounted:    "the status of ResourceQuota {quota} has no used amounts yet",
	NoPodLeft:          "ResourceQuota {quota} does not allow another pod",
	TooManyQuotas:      "the namespace has more than {most} ResourceQuotas, and podfit evaluates no more",
}

// String returns the refusal as a sentence without final period.
func (r Refusal) String() string {
	text := ""
	if int(r.Kind) < len(refusalTexts) {
		text = refusalTexts[r.Kind]
	}
	who := "the pod"
	if r.Container != "" {
		who = "container " + r.Container
	}
	what := "requests"
	if r.OfLimit {
		what = "limits"
	}
	text = strings.NewReplacer(
		"{resource}", r.Resource.String(), "{who}", who, "{what}", what, "{quota}", r.Quota, "{most}", strconv.Itoa(cluster.MostQuotas),
		"{have}", cluster.Format(r.Resource, r.Have), "{want}", cluster.Format(r.Resource, r.Want), "{left}", cluster.Format(r.Resource, max(r.Want, 0)),
		"{times}", fmt.Sprintf("%.3g", float64(r.Have)/1000), "{allowed}", fmt.Sprintf("%.3g", float64(r.Want)/1000),
	).Replace(text)
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
	to := fits[0].PodLevel
	if v, ok := to.Requests.Get(res); ok {
		s.level.request = fittedValue(v)
	}
	if v, ok := to.Limits.Get(res); ok {
		s.level.limit = fittedValue(v)
	}
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

// NoteKind is the kind of a note.
type NoteKind uint8

// The kinds of notes.
const (
	RaisedToRangeMin   NoteKind = iota // to Min of the container LimitRange
	LoweredToRangeMax                  // to Max of the container LimitRange
	RaisedToMinAllowed                 // by the container policy
	LoweredToMaxAllowed
	LoweredToLimit       // the policy keeps limits, and a request must not be above its limit
	NoLimitOriginally    // the container has no limit, so none is set
	NoRequestRecommended // so no limit is derived from it
	LimitOverflow        // the proportional limit does not fit into an int64
	HeldToAdmitted       // the API server would refuse the pod otherwise
	HeldToScalePoint     // the target of an HPA cannot follow a further change
	HeldToNode           // the pod would fit on no node otherwise
	HeldToQuota          // the pod would exceed a ResourceQuota even if no other pod used it
	RaisedOutOfBand      // a JVM could read the request as all cores of the node
	LoweredOutOfBand     // the same, and a bound does not allow more
	RaisedToHeap         // the options of a JVM set a larger heap
	LoweredToContainers  // an init container costs nothing within the sum of the other containers
)

// Tools read these texts in the annotation vpaUpdates. They are identical to upstream's, except the last eight, which upstream does
// not have.
var noteTexts = [...]string{
	RaisedToRangeMin:     " capped to fit Min in container LimitRange",
	LoweredToRangeMax:    " capped to fit Max in container LimitRange",
	RaisedToMinAllowed:   " capped to minAllowed",
	LoweredToMaxAllowed:  " capped to maxAllowed",
	LoweredToLimit:       " capped to container limit",
	NoLimitOriginally:    ": limit NOT set since originalLimit is nil or 0",
	NoRequestRecommended: ": limit NOT set since recommendedRequest is nil or 0",
	LimitOverflow:        ": failed to keep limit to request ratio; capping limit to int64",
	HeldToAdmitted:       " capped to what the API server admits",
	HeldToScalePoint:     " capped to keep the scale point of the HorizontalPodAutoscaler",
	HeldToNode:           " capped to the largest node for the pod",
	HeldToQuota:          " capped to what the ResourceQuota allows",
	RaisedOutOfBand:      " raised above a range that a JVM misreads",
	LoweredOutOfBand:     " lowered below a range that a JVM misreads",
	RaisedToHeap:         " raised to the heap of the JVM",
	LoweredToContainers:  " capped to the sum of the other containers",
}

// String returns the text of the note in the annotation vpaUpdates.
func (n Note) String() string {
	if int(n.Kind) >= len(noteTexts) {
		return n.Resource.String()
	}
	return n.Resource.String() + noteTexts[n.Kind]
}
