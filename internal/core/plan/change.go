// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// Differences up to these amounts are rounding errors: proportional limits are rounded once for a pod that is created from its
// template, and twice for a running pod.
const (
	noticeableCPU    = 1    // millicores
	noticeableMemory = 4096 // bytes: one page of the kernel
)

// compare returns -1, 0 or 1 as amount a is noticeably smaller than b, about the same, or noticeably larger.
func compare(res cluster.Resource, a, b int64) int {
	least := int64(noticeableCPU)
	if res == cluster.Memory {
		least = noticeableMemory
	}
	switch d := float64(a) - float64(b); {
	case d > float64(least):
		return 1
	case d < -float64(least):
		return -1
	}
	return 0
}

// A pair is the current and the new request or limit of a container for one resource.
type pair struct {
	container *cluster.Container
	resource  cluster.Resource
	limit     bool
	from, to  int64
	had       bool // from is set
}

// pairs calls yield for each amount that fits would set on a pod. The current amount is the one in the spec if spec is true, else
// the one that the container runs with.
func pairs(p *cluster.Pod, fits []policy.Fitted, spec bool, yield func(pair)) {
	for i := range fits {
		f := &fits[i]
		c := p.Container(f.Container)
		if c == nil {
			continue
		}
		requests, limits := c.Requests, c.Limits
		if !spec {
			requests, limits = c.Running()
		}
		for _, res := range cluster.All {
			if to, ok := f.Requests.Get(res); ok {
				from, had := requests.Get(res)
				yield(pair{container: c, resource: res, from: from, to: to, had: had})
			}
			if to, ok := f.Limits.Get(res); ok {
				from, had := limits.Get(res)
				yield(pair{container: c, resource: res, limit: true, from: from, to: to, had: had})
			}
		}
	}
}

func (p pair) same() bool { return p.had && compare(p.resource, p.to, p.from) == 0 }

// sameSize reports whether a pod already runs with the amounts of fits.
func sameSize(p *cluster.Pod, fits []policy.Fitted) bool { return allSame(p, fits, false) }

// alreadyAsked reports whether the pod's spec already has the amounts of fits.
func alreadyAsked(p *cluster.Pod, fits []policy.Fitted) bool { return allSame(p, fits, true) }

func allSame(p *cluster.Pod, fits []policy.Fitted, spec bool) bool {
	same := true
	pairs(p, fits, spec, func(x pair) { same = same && x.same() })
	return same
}

// asksLess reports whether fits lowers a request of the pod's spec by at least the given fraction.
func asksLess(p *cluster.Pod, fits []policy.Fitted, part float64) bool {
	less := false
	pairs(p, fits, true, func(x pair) {
		smaller := compare(x.resource, x.to, x.from) < 0 && float64(x.from)-float64(x.to) >= part*float64(x.from)
		less = less || !x.limit && x.had && smaller
	})
	return less
}

// asksLessThan reports whether a request of fits is lower than in before by at least the given fraction.
func asksLessThan(fits, before []policy.Fitted, part float64) bool {
	for i := range fits {
		for j := range before {
			if fits[i].Container != before[j].Container {
				continue
			}
			for _, res := range cluster.All {
				v, ok := fits[i].Requests.Get(res)
				b, had := before[j].Requests.Get(res)
				if ok && had && v < b && float64(b)-float64(v) >= part*float64(b) {
					return true
				}
			}
		}
	}
	return false
}

// asksSmaller reports whether fits is a smaller size than before: a request is lower by at least the given fraction, and none is higher.
func asksSmaller(fits, before []policy.Fitted, part float64) bool {
	return asksLessThan(fits, before, part) && !asksLessThan(before, fits, 0)
}

// asksOther reports whether fits changes a request of the pod's spec by at least the given fraction.
func asksOther(p *cluster.Pod, fits []policy.Fitted, part float64) bool {
	if asksLess(p, fits, part) {
		return true
	}
	more := false
	pairs(p, fits, true, func(x pair) {
		larger := compare(x.resource, x.to, x.from) > 0 && float64(x.to)-float64(x.from) >= part*float64(x.from)
		more = more || !x.limit && (!x.had || larger)
	})
	return more
}

// raisesMemoryLimit reports whether fits raises a memory limit of the pod's spec.
func raisesMemoryLimit(p *cluster.Pod, fits []policy.Fitted) bool {
	raised := false
	pairs(p, fits, true, func(x pair) {
		if x.limit && x.resource == cluster.Memory && x.had {
			raised = raised || compare(x.resource, x.to, x.from) > 0
		}
	})
	return raised
}

// grows reports whether fits raises a request of the running pod.
func grows(p *cluster.Pod, fits []policy.Fitted) bool {
	more := false
	pairs(p, fits, false, func(x pair) { more = more || !x.limit && compare(x.resource, x.to, x.from) > 0 })
	return more
}

// shrinks reports whether fits lowers a request of the running pod and raises none.
func shrinks(p *cluster.Pod, fits []policy.Fitted) bool {
	less := false
	pairs(p, fits, false, func(x pair) { less = less || !x.limit && compare(x.resource, x.to, x.from) < 0 })
	return less && !grows(p, fits)
}

// restarts reports whether a resize to fits would restart a container.
func restarts(p *cluster.Pod, fits []policy.Fitted) bool {
	restart := false
	pairs(p, fits, false, func(x pair) {
		restart = restart || x.container.Restart.Has(x.resource) && (!x.had || x.from != x.to)
	})
	return restart
}

// changesQoS reports whether a resize to fits would change the pod's quality-of-service class, which the API server
// refuses. It returns false if the pod's current class does not follow from its spec.
func changesQoS(l policy.Limits, p *cluster.Pod, fits []policy.Fitted) bool {
	before := policy.QoSOf(policy.Limits{}, p, nil)
	if p.QoS != cluster.UnknownQoS && p.QoS != before {
		return false
	}
	return policy.QoSOf(l, p, fits) != before
}

// total returns the requests that the scheduler counts for a pod with fits set on it: the sum of containers and sidecars, or, if
// larger, an init container together with the sidecars before it.
func total(p *cluster.Pod, fits []policy.Fitted) cluster.Resources {
	var containers, sidecars, first cluster.Resources
	for i := range p.Containers {
		c := &p.Containers[i]
		r := c.Requests
		switch c.Role {
		case cluster.Init:
			with := sidecars.Add(r)
			first = cluster.Amounts(max(first.CPU, with.CPU), max(first.Memory, with.Memory))
		case cluster.Sidecar:
			sidecars = sidecars.Add(r)
		case cluster.Regular:
			for j := range fits {
				if fits[j].Container == c.Name {
					r = fits[j].Requests.Or(r)
				}
			}
			containers = containers.Add(r)
		}
	}
	running := containers.Add(sidecars)
	sum := cluster.Amounts(max(running.CPU, first.CPU), max(running.Memory, first.Memory))
	if level := policy.PodLevelOf(p, fits); level != nil {
		return level.Requests.Or(sum)
	}
	return sum
}
