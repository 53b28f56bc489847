// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A Demand contains the amounts of a pod that the ResourceQuotas of its namespace count.
type Demand struct {
	requests, limits   [len(cluster.All)]value
	noRequest, noLimit cluster.Set // a container has none, which quotas refuse
	bestEffort         bool
	standing           cluster.Standing
}

// DemandOf returns the demand of a pod with fits set on it, as the API server counts it when the pod is created or resized: it
// includes defaults of LimitRanges, pod-level resources and the overhead of the pod.
func DemandOf(limits Limits, pod *cluster.Pod, standing cluster.Standing, fits []Fitted) Demand {
	demand := Demand{bestEffort: true, standing: standing}
	var few [fewContainers]size
	for i, res := range cluster.All {
		amounts := sizesOf(few[:0], limits, pod, fits, res)
		amounts.setLevel(pod, fits, res)
		amounts.defaultLevel()
		total := amounts.total()
		demand.bestEffort = demand.bestEffort && total.request.v == 0 && total.limit.v == 0
		if v := standing.Overhead.Amount(res); v > 0 {
			total.request = value{v: integer.Sum(total.request.v, v), set: true, off: total.request.off}
			if total.limit.v > 0 {
				total.limit.v = integer.Sum(total.limit.v, v)
			}
		}
		demand.requests[i] = total.request
		demand.limits[i] = total.limit
		if pod.PodLevel != nil {
			continue
		}
		for j := range amounts.containers {
			if !amounts.containers[j].request.set {
				demand.noRequest = demand.noRequest.With(res)
			}
			if !amounts.containers[j].limit.set {
				demand.noLimit = demand.noLimit.With(res)
			}
		}
	}
	return demand
}

// Counted reports whether a quota counts the pod.
func (d *Demand) Counted(q *cluster.Quota) cluster.Truth { return q.Counts(d.standing, d.bestEffort) }

// Most returns the amount that a quota counts, rounded up.
func (d *Demand) Most() cluster.PodResources { return d.amounts(1) }

// Least returns the amount that a quota counts, rounded down.
func (d *Demand) Least() cluster.PodResources { return d.amounts(-1) }

func (d *Demand) amounts(sign int64) cluster.PodResources {
	var out cluster.PodResources
	for i, res := range cluster.All {
		out.Requests = out.Requests.Set(res, d.requests[i].rounded(sign))
		out.Limits = out.Limits.Set(res, d.limits[i].rounded(sign))
	}
	return out
}

// Growth returns the increase of the demand over that of the current size, rounded up; negative for a decrease.
func (d *Demand) Growth(own *Demand) cluster.PodResources {
	var out cluster.PodResources
	more := func(to, from value) int64 {
		// Both contain the same amounts that are not exactly known, so the errors cancel.
		return to.v - from.v + max(from.off-to.off, to.off-from.off)
	}
	for i, res := range cluster.All {
		out.Requests = out.Requests.Set(res, more(d.requests[i], own.requests[i]))
		out.Limits = out.Limits.Set(res, more(d.limits[i], own.limits[i]))
	}
	return out
}

// MayExceed returns why a quota may refuse the pod. It assumes that the quota counts the pod unless the opposite is known, and
// rounds amounts up.
func (d *Demand) MayExceed(q *cluster.Quota) Refusal {
	if d.Counted(q) == cluster.No {
		return Refusal{}
	}
	return d.exceeds(q, 1)
}

// SurelyExceeds reports whether a quota certainly refuses the pod.
func (d *Demand) SurelyExceeds(q *cluster.Quota) bool {
	return d.Counted(q) == cluster.Yes && d.exceeds(q, -1).Refused()
}

// exceeds returns why a quota refuses the pod if its amounts are rounded up (1) or down (-1).
func (d *Demand) exceeds(quota *cluster.Quota, sign int64) Refusal {
	if quota.NotCounted {
		return Refusal{Kind: QuotaNotCounted, Quota: quota.Name}
	}
	for i, res := range cluster.All {
		for _, bound := range [...]struct {
			left  cluster.Resources
			asked value
			lacks cluster.Set
			limit bool
		}{
			{quota.Left.Requests, d.requests[i], d.noRequest, false},
			{quota.Left.Limits, d.limits[i], d.noLimit, true},
		} {
			left, bounded := bound.left.Get(res)
			r := Refusal{Quota: quota.Name, Resource: res, OfLimit: bound.limit, Have: bound.asked.rounded(sign), Want: left, Rounded: bound.asked.off > 0}
			switch {
			case !bounded:
			case bound.lacks.Has(res):
				r.Kind = QuotaRequires
				return r
			case r.Have > 0 && r.Have > left:
				r.Kind = OverQuota
				return r
			}
		}
	}
	if quota.BoundsPods && quota.PodsLeft < 1 {
		return Refusal{Kind: NoPodLeft, Quota: quota.Name}
	}
	return Refusal{}
}

// QuotaRefusal returns the ResourceQuota that may refuse a new pod because of fits. It returns none if the quotas refuse the pod
// without fits, too: the controller creates the pod again later, and the pod should get its size then.
func QuotaRefusal(l Limits, p *cluster.Pod, standing cluster.Standing, fits []Fitted) Refusal {
	if l.Quotas == nil || len(fits) == 0 {
		return Refusal{}
	}
	if l.Quotas.TooMany {
		return Refusal{Kind: TooManyQuotas}
	}
	var first Refusal
	fitted := DemandOf(l, p, standing, fits)
	own := DemandOf(l, p, standing, nil)
	for i := range l.Quotas.List {
		q := &l.Quotas.List[i]
		if own.SurelyExceeds(q) {
			return Refusal{}
		}
		if !first.Refused() {
			first = fitted.MayExceed(q)
		}
	}
	return first
}
