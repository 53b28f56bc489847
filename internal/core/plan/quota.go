// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// A quotaView is the demand of a pod on the ResourceQuotas of its namespace.
type quotaView struct {
	quotas      []cluster.Quota
	reserved    []cluster.PodResources // what decisions of this pass take of each quota
	fitted, own policy.Demand
}

// quotaView returns the view of the candidate; false if the quotas of the namespace are unknown.
func (t *candidate) quotaView() (quotaView, bool) {
	p := t.d.Pod
	around := t.w.Limits[p.Namespace]
	if around.Quotas == nil {
		return quotaView{}, false
	}
	v := quotaView{quotas: around.Quotas.List, reserved: t.reserved[p.Namespace]}
	if v.reserved == nil {
		v.reserved = make([]cluster.PodResources, len(v.quotas))
	}
	standing := standingOf(p)
	v.fitted = policy.DemandOf(around, p, standing, t.d.With)
	v.own = policy.DemandOf(policy.Limits{}, p, standing, nil) // defaults of LimitRanges are not added to what is stored
	return v, true
}

// standingOf returns which quota scopes are known for a pod. Built-in controllers of long-running pods create no pods with a
// deadline. The priority class and affinity of a pod are not stored: a quota with such a scope is assumed to count the pod.
func standingOf(p *cluster.Pod) cluster.Standing {
	type kind struct{ group, kind string }
	switch (kind{p.Controller.Group, p.Controller.Kind}) {
	case kind{"apps", "ReplicaSet"}, kind{"apps", "StatefulSet"}, kind{"apps", "DaemonSet"}, kind{"", "ReplicationController"}:
		return cluster.Standing{Terminating: cluster.No}
	}
	return cluster.Standing{}
}

// replacementOverQuota blocks an eviction whose replacement would not get the new requests because of a ResourceQuota: the admission
// controller does not change a pod that would exceed a quota.
//
// The evicted pod counts until it is gone. So the replacement must fit beside it; or the replacement is refused with any size until
// the evicted pod is gone, and fits then. The latter is known only of a pod that is as its template has it, and of one that grows in
// nothing, unless it was resized in place: its template may be so small that the quota admits the replacement at once, with that size.
func (t *candidate) replacementOverQuota() (decision.Reason, bool) {
	v, known := t.quotaView()
	if !known {
		return decision.Reason{}, false
	}
	r := t.tooManyQuotas()
	if !r.Refused() {
		r = v.beside()
	}
	if !r.Refused() || (t.asTemplate() || !v.grows() && !t.wasResized()) && v.fitsAfterwards() {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.OverQuota, Text: v.text(r, v.beside)}, true
}

// resizeOverQuota blocks a resize that a ResourceQuota would refuse.
func (t *candidate) resizeOverQuota() (decision.Reason, bool) {
	v, known := t.quotaView()
	if !known {
		return decision.Reason{}, false
	}
	v.fitted = t.whileResized()
	r := t.tooManyQuotas()
	if !r.Refused() {
		r = v.inPlace()
	}
	return decision.Reason{Code: decision.OverQuota, Text: v.text(r, v.inPlace)}, r.Refused()
}

// text returns a refusal as text, with a note if the quota has room for the pod, but not for it and the pods that were decided on
// before. again returns the refusal by the view.
func (v *quotaView) text(r policy.Refusal, again func() policy.Refusal) string {
	if r.Kind == policy.TooManyQuotas {
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

// whileResized returns the demand that quotas count until a resize has completed: for each container the higher of the current and
// the new amounts.
func (t *candidate) whileResized() policy.Demand {
	p := t.d.Pod
	return policy.DemandOf(t.w.Limits[p.Namespace], p, standingOf(p), notBelow(p, t.d.With))
}

// notBelow returns fits with each amount raised to the current one.
func notBelow(p *cluster.Pod, fits []policy.Fitted) []policy.Fitted {
	out := slices.Clone(fits)
	for i := range out {
		f := &out[i]
		c := p.Container(f.Container)
		running, limits := c.Running()
		f.Requests = higher(f.Requests, c.Requests, running)
		f.Limits = higher(f.Limits, c.Limits, limits)
		if f.PodLevel != nil && p.PodLevel != nil {
			f.PodLevel = &cluster.PodResources{
				Requests: higher(f.PodLevel.Requests, p.PodLevel.Requests), Limits: higher(f.PodLevel.Limits, p.PodLevel.Limits),
			}
		}
	}
	return out
}

// higher returns r with each amount that is set raised to that of others.
func higher(r cluster.Resources, others ...cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		v, ok := r.Get(res)
		for _, other := range others {
			v = max(v, other.Amount(res))
		}
		if ok {
			r = r.Set(res, v)
		}
	}
	return r
}

func (t *candidate) tooManyQuotas() policy.Refusal {
	if t.w.Limits[t.d.Pod.Namespace].Quotas.TooMany {
		return policy.Refusal{Kind: policy.TooManyQuotas}
	}
	return policy.Refusal{}
}

// asTemplate reports whether the pod has the requests of its template: the admission controller has not changed it, and the update
// mode does not resize.
func (t *candidate) asTemplate() bool { return !t.d.Pod.Sized && !t.d.Autoscaler.Mode.Resizes() }

// wasResized reports whether the requests of the pod do not show how large it was created.
func (t *candidate) wasResized() bool {
	return t.d.Pod.IsResizing() || !t.w.Ledger.LastResize(t.d.Pod).IsZero()
}

// reserve reserves the amounts that a decision needs of the quotas of its namespace, so that no other decision of the pass uses
// them. They stay reserved until the next pass, unless the API server refuses the change.
func (t *candidate) reserve(do decision.Act) {
	v, known := t.quotaView()
	if !known {
		return
	}
	if do == decision.Resize {
		v.fitted = t.whileResized()
	}
	grows := v.fitted.Growth(&v.own)
	takes := cluster.PodResources{Requests: atLeastNone(grows.Requests), Limits: atLeastNone(grows.Limits)}
	if (do == decision.Evict || do == decision.Surge) && !v.beside().Refused() {
		takes = v.fitted.Most()
	}
	if t.reserved == nil {
		t.reserved = map[string][]cluster.PodResources{}
	}
	t.d.reserves = make([]cluster.PodResources, len(v.quotas))
	for i := range v.quotas {
		if v.fitted.Counted(&v.quotas[i]) != cluster.No {
			v.reserved[i].Requests = v.reserved[i].Requests.Add(takes.Requests)
			v.reserved[i].Limits = v.reserved[i].Limits.Add(takes.Limits)
			t.d.reserves[i] = takes
		}
	}
	t.reserved[t.d.Pod.Namespace] = v.reserved
}

// release returns the amounts that a refused decision had reserved of the quotas of its namespace.
func (s *pass) release(d *entry) {
	of := s.reserved[d.Pod.Namespace]
	for i, takes := range d.reserves {
		of[i].Requests, of[i].Limits = minus(of[i].Requests, takes.Requests), minus(of[i].Limits, takes.Limits)
	}
	d.reserves = nil
}

// beside returns which quota would refuse the replacement while the pod still counts.
func (v *quotaView) beside() policy.Refusal {
	return v.firstRefusal(func(q *cluster.Quota) {
		q.BoundsPods = q.BoundsPods && v.own.Counted(q) == cluster.No // refused with any size, and only for a while
	})
}

// fitsAfterwards reports whether the replacement is refused with any size until the pod is gone, and fits then.
func (v *quotaView) fitsAfterwards() bool {
	refused := false
	for i := range v.quotas {
		refused = refused || v.own.SurelyExceeds(&v.quotas[i])
	}
	return refused && !v.firstRefusal(func(q *cluster.Quota) {
		if v.own.Counted(q) == cluster.Yes {
			least := v.own.Least()
			q.Left.Requests, q.Left.Limits = plus(q.Left.Requests, least.Requests), plus(q.Left.Limits, least.Limits)
			q.PodsLeft++
		}
	}).Refused()
}

// inPlace returns which quota would refuse a resize of the pod. The API server counts only what grows.
func (v *quotaView) inPlace() policy.Refusal {
	most, grows := v.fitted.Most(), v.fitted.Growth(&v.own)
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
func (v *quotaView) firstRefusal(change func(*cluster.Quota)) policy.Refusal {
	for i := range v.quotas {
		q := v.quotas[i]
		q.Left.Requests = minus(q.Left.Requests, v.reserved[i].Requests)
		q.Left.Limits = minus(q.Left.Limits, v.reserved[i].Limits)
		change(&q)
		if r := v.fitted.MayExceed(&q); r.Refused() {
			return r
		}
	}
	return policy.Refusal{}
}

func (v *quotaView) grows() bool {
	g := v.fitted.Growth(&v.own)
	return g.Requests.CPU > 0 || g.Requests.Memory > 0 || g.Limits.CPU > 0 || g.Limits.Memory > 0
}

func atLeastNone(r cluster.Resources) cluster.Resources {
	return cluster.Amounts(max(r.CPU, 0), max(r.Memory, 0))
}

// plus and minus change the amounts that are set.
func plus(r, by cluster.Resources) cluster.Resources {
	return cluster.Resources{CPU: r.CPU + by.CPU, Memory: r.Memory + by.Memory, Has: r.Has}
}

func minus(r, by cluster.Resources) cluster.Resources {
	return cluster.Resources{CPU: r.CPU - by.CPU, Memory: r.Memory - by.Memory, Has: r.Has}
}
