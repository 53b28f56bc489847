// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

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

// The kinds of refusals.
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
func (k RefusalKind) OfLimitRange() bool {
	switch k {
	case NotRefused, RequestAboveLimit, SumAbovePodLevel, LimitAbovePodLevel,
		OverQuota, QuotaRequires, QuotaNotCounted, NoPodLeft, TooManyQuotas:
		return false
	case RequestMissing, LimitMissing, RequestBelowMin, LimitBelowMin, RequestAboveMax, LimitAboveMax, AboveRatio:
		return true
	}
	return false
}

// String returns the refusal as a sentence without final period.
func (r Refusal) String() string {
	s := r.sentence()
	if r.Rounded {
		s += " (rounded: the pod or the LimitRange has memory amounts that are not whole bytes)"
	}
	return s
}

func (r Refusal) sentence() string {
	who := "the pod"
	if r.Container != "" {
		who = "container " + r.Container
	}
	have, want := cluster.Format(r.Resource, r.Have), cluster.Format(r.Resource, r.Want)
	switch r.Kind {
	case RequestAboveLimit:
		return fmt.Sprintf("the %s request %s of %s is above its limit %s", r.Resource, have, who, want)
	case RequestMissing:
		return fmt.Sprintf("%s has no %s request, and a LimitRange requires one", who, r.Resource)
	case LimitMissing:
		return fmt.Sprintf("%s has no %s limit, and a LimitRange requires one", who, r.Resource)
	case RequestBelowMin:
		return fmt.Sprintf("the %s request %s of %s is below the minimum %s of a LimitRange", r.Resource, have, who, want)
	case LimitBelowMin:
		return fmt.Sprintf("the %s limit %s of %s is below the minimum %s of a LimitRange", r.Resource, have, who, want)
	case RequestAboveMax:
		return fmt.Sprintf("the %s request %s of %s is above the maximum %s of a LimitRange", r.Resource, have, who, want)
	case LimitAboveMax:
		return fmt.Sprintf("the %s limit %s of %s is above the maximum %s of a LimitRange", r.Resource, have, who, want)
	case AboveRatio:
		return fmt.Sprintf("the %s limit of %s is %.3g times its request, and a LimitRange allows %.3g times",
			r.Resource, who, float64(r.Have)/1000, float64(r.Want)/1000)
	case SumAbovePodLevel:
		return fmt.Sprintf("the containers request %s of %s together, and the pod-level request is %s", have, r.Resource, want)
	case LimitAbovePodLevel:
		return fmt.Sprintf("the %s limit %s of %s is above the pod-level limit %s", r.Resource, have, who, want)
	default:
		return r.quotaSentence()
	}
}

// Refused returns why the API server would refuse a pod with fits set on it. It considers CPU and memory, the LimitRanges of the
// namespace and the pod-level resources. It does not consider quotas (see QuotaRefusal) and admission webhooks.
func Refused(l Limits, p *cluster.Pod, fits []Fitted) Refusal {
	var few [fewContainers]size
	for _, res := range cluster.All {
		s := sizesOf(few[:0], l, p, fits, res)
		s.setLevel(p, fits, res)
		if r := s.refusal(); r.Refused() {
			r.Resource = res
			r.Rounded = res == cluster.Memory && (p.Fractions || l.Range.Fractions)
			return r
		}
	}
	return Refusal{}
}

// setLevel sets the pod-level resources that fits sets.
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
