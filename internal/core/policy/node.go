// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A ceiling bounds the requests and limits of a whole pod. Amounts that are not set are not bounded.
type ceiling struct {
	requests, limits cluster.Resources
	quota            cluster.Set // resources that a ResourceQuota bounds more than the node
}

// ceilingsOf returns the bounds of a pod, one for each size of node: the size of the node, and what the ResourceQuotas of the namespace
// could allow if no other pod used them. It returns none if nothing bounds the pod.
func ceilingsOf(l Limits) []ceiling {
	if l.Nodes == nil {
		return nil
	}
	quota := hardQuota(l.Quotas)
	if len(l.Nodes.Largest) == 0 {
		if quota == (cluster.PodResources{}) {
			return nil
		}
		return []ceiling{{requests: quota.Requests, limits: quota.Limits, quota: quota.Requests.Has | quota.Limits.Has}}
	}
	out := make([]ceiling, 0, len(l.Nodes.Largest))
	for _, size := range l.Nodes.Largest {
		c := ceiling{requests: size, limits: quota.Limits, quota: quota.Limits.Has}
		for _, res := range cluster.All {
			if hard, bounded := quota.Requests.Get(res); bounded && hard < size.Amount(res) {
				c.requests = c.requests.Set(res, hard)
				c.quota = c.quota.With(res)
			}
		}
		out = append(out, c)
	}
	return out
}

// hardQuota returns the lowest hard bounds of the quotas that count any pod with requests, whatever its other properties are.
func hardQuota(quotas *cluster.Quotas) cluster.PodResources {
	var out cluster.PodResources
	if quotas == nil {
		return out
	}
	for i := range quotas.List {
		if q := &quotas.List[i]; q.Counts(cluster.Standing{}, false) == cluster.Yes {
			out.Requests = out.Requests.Lowest(q.Hard.Requests)
			out.Limits = out.Limits.Lowest(q.Hard.Limits)
		}
	}
	return out
}

// holds reports whether a pod with the given requests and limits is within the ceiling.
func (c *ceiling) holds(amounts cluster.PodResources) bool {
	for _, res := range cluster.All {
		if v, bounded := c.requests.Get(res); bounded && amounts.Requests.Amount(res) > v {
			return false
		}
		if v, bounded := c.limits.Get(res); bounded && amounts.Limits.Amount(res) > v {
			return false
		}
	}
	return true
}

// part returns the part of the amounts that the ceiling leaves in the resource that it bounds most, at most 1.
func (c *ceiling) part(amounts cluster.PodResources) float64 {
	part := 1.0
	for _, res := range cluster.All {
		if v, bounded := c.requests.Get(res); bounded {
			part = min(part, float64(v)/float64(max(amounts.Requests.Amount(res), 1)))
		}
		if v, bounded := c.limits.Get(res); bounded {
			part = min(part, float64(v)/float64(max(amounts.Limits.Amount(res), 1)))
		}
	}
	return part
}

// demandOf returns the requests and limits of a pod with fits set on it, rounded up.
func demandOf(l Limits, p *cluster.Pod, fits []Fitted) cluster.PodResources {
	demand := admissible.DemandOf(l, p, cluster.Standing{}, fits)
	return demand.Most()
}

// scaleToNode scales a pod that fits on no node, or that exceeds a ResourceQuota even alone, down to what fits: the containers in
// proportion to their requests, but no request below its lower bound or below the present one. It returns fits unchanged if the pod
// fits, and if no smaller size is allowed: then the pod has to wait for a larger node.
//
// The smaller size must be valid wherever the wanted one is, and have the same QoS class. A pod with the overhead of a RuntimeClass is
// not scaled, because the overhead is not known.
func scaleToNode(f fitting) []Fitted {
	fits := scaledToNode(f)
	f.looked.scaledToNode(f.l, fits)
	return fits
}

func scaledToNode(f fitting) []Fitted {
	if f.l.Nodes == nil || f.p.Overhead {
		return f.fits
	}
	ceilings := ceilingsOf(f.l)
	wanted := demandOf(f.l, f.p, f.fits)
	if holdsAny(ceilings, wanted) {
		return f.fits
	}
	slices.SortStableFunc(ceilings, func(x, y ceiling) int { return cmp.Compare(y.part(wanted), x.part(wanted)) })
	for i := range ceilings {
		s := scaling{fitting: f, wanted: wanted, to: &ceilings[i]}
		if scaled, ok := s.apply(); ok {
			return scaled
		}
	}
	return f.fits
}

// holdsAny reports whether one of the ceilings holds a pod, or whether there are none.
func holdsAny(ceilings []ceiling, wanted cluster.PodResources) bool {
	return len(ceilings) == 0 || slices.ContainsFunc(ceilings, func(c ceiling) bool { return c.holds(wanted) })
}

// A scaling is one attempt to scale a pod down.
type scaling struct {
	fitting                      // with the wanted size
	wanted  cluster.PodResources // its sums over the pod
	to      *ceiling
}

// apply returns the scaled size, and false if it is not allowed.
func (s *scaling) apply() ([]Fitted, bool) {
	scaled := fitting{a: s.a, l: s.l, p: s.p}.through(targetSteps[:])
	out := scaled.fits
	if len(out) != len(s.fits) {
		return nil, false
	}
	floors := s.floors()
	for _, res := range cluster.All {
		if excess := s.excess(res); excess > 0 && !s.lower(out, floors, res, excess) {
			return nil, false
		}
	}
	s.lowerOutOfBands(out, floors)
	settle(scaled)
	return out, s.allows(out, floors)
}

// excess returns by how much the sum of the requests that fits sets must fall.
func (s *scaling) excess(res cluster.Resource) int64 {
	excess := int64(0)
	if most, bounded := s.to.requests.Get(res); bounded {
		excess = s.wanted.Requests.Amount(res) - most
	}
	most, bounded := s.to.limits.Get(res)
	if over := s.wanted.Limits.Amount(res) - most; bounded && over > 0 {
		var requests, limits int64
		for i := range s.fits {
			requests, limits = integer.Sum(requests, s.fits[i].Requests.Amount(res)), integer.Sum(limits, s.fits[i].Limits.Amount(res))
		}
		part, _ := integer.ScaledUp(requests, over, limits)
		excess = max(excess, part)
	}
	return excess
}

// floors returns the lowest amounts that the requests of the containers may be scaled to. An amount without a lower bound is not scaled,
// and neither is one that podfit changes together with the target of an HPA.
func (s *scaling) floors() []cluster.Resources {
	present := s.p.Node != "" || s.to.holds(demandOf(s.l, s.p, nil))
	out := make([]cluster.Resources, len(s.fits))
	for i := range s.fits {
		f := &s.fits[i]
		running, _ := s.p.Container(f.Container).Running()
		for _, res := range cluster.All {
			want, ok := f.Requests.Get(res)
			if !ok {
				continue
			}
			floor, bounded := f.Estimate.Lower.Get(res)
			if present {
				floor = max(floor, running.Amount(res))
			}
			if state, _ := HorizontalOf(s.a, f.Container, res); !bounded || f.Inserted || state == ScalePointPreserved {
				floor = want
			}
			out[i] = out[i].Set(res, max(min(floor, want), min(want, 1)))
		}
	}
	return out
}

// lower lowers the targets of one resource by the excess, in proportion. It reports whether the floors allow that.
func (s *scaling) lower(out []Fitted, floors []cluster.Resources, res cluster.Resource, excess int64) bool {
	var total, least int64
	for i := range s.fits {
		total, least = integer.Sum(total, s.fits[i].Requests.Amount(res)), integer.Sum(least, floors[i].Amount(res))
	}
	if total == math.MaxInt64 || total-excess < least {
		return false
	}
	kind := admissible.HeldToNode
	if s.to.quota.Has(res) {
		kind = admissible.HeldToQuota
	}
	for i, part := range s.shares(floors, res, total-excess) {
		f := &out[i]
		if want, ok := s.fits[i].Requests.Get(res); ok && part.amount < want {
			f.Estimate.Target = f.Estimate.Target.Set(res, part.amount)
			f.Notes = append(slices.Clip(f.Notes), Note{Resource: res, Kind: kind})
		}
	}
	return true
}

// shares divides an amount among the containers in proportion to what they want, each at least its floor.
func (s *scaling) shares(floors []cluster.Resources, res cluster.Resource, amount int64) []nodePart {
	parts := make([]nodePart, len(s.fits))
	for i := range s.fits {
		want := s.fits[i].Requests.Amount(res)
		parts[i] = nodePart{amount: want, floor: floors[i].Amount(res), whole: s.isWhole(i, res)}
	}
	distribute(parts, amount)
	return parts
}

// isWhole reports whether a container wants whole cores, and the autoscaler asks for whole cores.
func (s *scaling) isWhole(i int, res cluster.Resource) bool {
	f := &s.fits[i]
	return res == cluster.CPU && f.Requests.CPU%1000 == 0 && slices.Contains(s.a.IntegerCPU, f.Container)
}

// allows reports whether a scaled size is within the ceiling and the floors, and as valid as the wanted size.
func (s *scaling) allows(out []Fitted, floors []cluster.Resources) bool {
	for i := range out {
		f := &out[i]
		for _, res := range cluster.All {
			v := f.Requests.Amount(res)
			want := s.fits[i].Requests.Amount(res)
			if v < floors[i].Amount(res) || v > want || s.isWhole(i, res) && v%1000 != 0 {
				return false
			}
		}
	}
	return s.to.holds(demandOf(s.l, s.p, out)) &&
		(!admissible.Refused(s.l, s.p, out).Refused() || admissible.Refused(s.l, s.p, s.fits).Refused()) &&
		admissible.QoSOf(s.l, s.p, out) == admissible.QoSOf(s.l, s.p, s.fits)
}
