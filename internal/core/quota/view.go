// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// A view is the demand of a pod on the quotas of its namespace.
type view struct {
	quotas      []cluster.Quota
	reserved    []cluster.PodResources // what decisions of this pass take of each quota
	fitted, own admissible.Demand
	tooMany     admissible.Refusal // there are too many quotas to read
}

// view returns the view of a decision; false if the quotas of the namespace are unknown.
func (b *Book) view(d *decision.Decision) (view, bool) {
	around := b.Limits[d.Pod.Namespace]
	if around.Quotas == nil {
		return view{}, false
	}
	v := view{quotas: around.Quotas.List, reserved: b.reserved[d.Pod.Namespace]}
	if v.reserved == nil {
		v.reserved = make([]cluster.PodResources, len(v.quotas))
	}
	standing := StandingOf(d.Pod)
	v.fitted = admissible.DemandOf(around, d.Pod, standing, d.With)
	v.own = admissible.DemandOf(policy.Limits{}, d.Pod, standing, nil) // defaults of LimitRanges are not added to what is stored
	if around.Quotas.TooMany {
		v.tooMany = admissible.Refusal{Kind: admissible.TooManyQuotas}
	}
	return v, true
}

// whileResized returns the demand that quotas count until a resize has completed: for each container the higher of the current and
// the new amounts.
func (b *Book) whileResized(d *decision.Decision) admissible.Demand {
	return admissible.DemandOf(b.Limits[d.Pod.Namespace], d.Pod, StandingOf(d.Pod), notBelow(d.Pod, d.With))
}

// text returns a refusal as text, with a note if the quota has room for the pod, but not for it and the pods that were decided on
// before. again returns the refusal by the view.
func (v *view) text(r admissible.Refusal, again func() admissible.Refusal) string {
	if r.Kind == admissible.TooManyQuotas {
		return r.String()
	}
	reserved := v.reserved
	v.reserved = make([]cluster.PodResources, len(v.quotas))
	alone := again()
	v.reserved = reserved
	if r.Refused() && !alone.Refused() {
		return r.String() + " after the other changes of this pass"
	}
	return r.String()
}

// beside returns which quota would refuse the replacement while the pod still counts.
func (v *view) beside() admissible.Refusal {
	return v.firstRefusal(func(q *cluster.Quota) {
		q.BoundsPods = q.BoundsPods && v.own.Counted(q) == cluster.No // refused with any size, and only for a while
	})
}

// fitsAfterwards reports whether the replacement is refused with any size until the pod is gone, and fits then.
func (v *view) fitsAfterwards() bool {
	refused := false
	for i := range v.quotas {
		refused = refused || v.own.SurelyExceeds(&v.quotas[i])
	}
	return refused && !v.firstRefusal(v.giveBack).Refused()
}

// giveBack adds to what a quota has left what it has again when the pod is gone.
func (v *view) giveBack(q *cluster.Quota) {
	if v.own.Counted(q) == cluster.Yes {
		least := v.own.Least()
		q.Left.Requests, q.Left.Limits = plus(q.Left.Requests, least.Requests), plus(q.Left.Limits, least.Limits)
		q.PodsLeft++
	}
}

// inPlace returns which quota would refuse a resize of the pod. The API server counts only what grows.
func (v *view) inPlace() admissible.Refusal {
	most := v.fitted.Most()
	grows := v.fitted.Growth(&v.own)
	return v.firstRefusal(func(q *cluster.Quota) {
		q.BoundsPods = false
		q.Left.Requests = plus(q.Left.Requests, minus(most.Requests, grows.Requests))
		q.Left.Limits = plus(q.Left.Limits, minus(most.Limits, grows.Limits))
		for _, of := range [...]struct {
			left        *cluster.Resources
			most, grows cluster.Resources
		}{{&q.Left.Requests, most.Requests, grows.Requests}, {&q.Left.Limits, most.Limits, grows.Limits}} {
			for _, res := range cluster.All {
				if left, bounded := of.left.Get(res); bounded && of.grows.Amount(res) <= 0 {
					*of.left = of.left.Set(res, max(left, of.most.Amount(res)))
				}
			}
		}
	})
}

// firstRefusal returns why the first of the quotas refuses the new size. change may change what a quota has left.
func (v *view) firstRefusal(change func(*cluster.Quota)) admissible.Refusal {
	for i := range v.quotas {
		q := v.quotas[i]
		q.Left = difference(q.Left, v.reserved[i])
		change(&q)
		if r := v.fitted.MayExceed(&q); r.Refused() {
			return r
		}
	}
	return admissible.Refusal{}
}

func (v *view) grows() bool {
	amounts := amountsOf(v.fitted.Growth(&v.own))
	return slices.Max(amounts[:]) > 0
}

// notBelow returns fits with each amount raised to the current one.
func notBelow(p *cluster.Pod, fits []policy.Fitted) []policy.Fitted {
	out := slices.Clone(fits)
	for i := range out {
		f := &out[i]
		c := p.Container(f.Container)
		running, limits := c.Running()
		f.Requests = f.Requests.Highest(c.Requests).Highest(running).Only(f.Requests.Has)
		f.Limits = f.Limits.Highest(c.Limits).Highest(limits).Only(f.Limits.Has)
		if f.PodLevel != nil && p.PodLevel != nil {
			f.PodLevel = new(higher(*f.PodLevel, *p.PodLevel))
		}
	}
	return out
}

// higher returns a with each amount that is set raised to that of b.
func higher(a, b cluster.PodResources) cluster.PodResources {
	return cluster.PodResources{Requests: a.Requests.Highest(b.Requests).Only(a.Requests.Has), Limits: a.Limits.Highest(b.Limits).Only(a.Limits.Has)}
}

// atLeastNone returns an increase without what it lowers.
func atLeastNone(r cluster.PodResources) cluster.PodResources {
	return cluster.PodResources{
		Requests: cluster.Amounts(max(r.Requests.CPU, 0), max(r.Requests.Memory, 0)),
		Limits:   cluster.Amounts(max(r.Limits.CPU, 0), max(r.Limits.Memory, 0)),
	}
}

func sum(a, b cluster.PodResources) cluster.PodResources {
	return cluster.PodResources{Requests: a.Requests.Add(b.Requests), Limits: a.Limits.Add(b.Limits)}
}

// difference changes the amounts that are set.
func difference(a, b cluster.PodResources) cluster.PodResources {
	return cluster.PodResources{Requests: minus(a.Requests, b.Requests), Limits: minus(a.Limits, b.Limits)}
}

// plus and minus change the amounts that are set.
func plus(r, by cluster.Resources) cluster.Resources {
	return cluster.Resources{CPU: r.CPU + by.CPU, Memory: r.Memory + by.Memory, Has: r.Has}
}

func minus(r, by cluster.Resources) cluster.Resources {
	return cluster.Resources{CPU: r.CPU - by.CPU, Memory: r.Memory - by.Memory, Has: r.Has}
}
