// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package change compares the requests and limits that a pod has with those that it should get.
package change

import (
	"iter"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// Differences up to these amounts are rounding errors: proportional limits are rounded once for a pod that is created from its
// template, and twice for a running pod.
const (
	noticeableCPU    = 1    // millicores
	noticeableMemory = 4096 // bytes: one page of the kernel
)

// Compare returns -1, 0 or 1 as amount a is noticeably smaller than b, about the same, or noticeably larger.
func Compare(res cluster.Resource, a, b int64) int {
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

// A Pair is the current and the new request or limit of a container, or of the pod as a whole, for one resource.
type Pair struct {
	Container *cluster.Container // without a name for pod-level resources
	Resource  cluster.Resource
	Limit     bool
	From, To  int64
	Had       bool // From is set
}

// Pairs returns each amount that fits would set on a pod. The current amount is the one in the spec if spec is true, else the one that
// the container runs with.
func Pairs(p *cluster.Pod, fits []policy.Fitted, spec bool) iter.Seq[Pair] {
	return func(yield func(Pair) bool) {
		for i := range fits {
			c := p.Container(fits[i].Container)
			if c == nil {
				continue
			}
			had := cluster.PodResources{Requests: c.Requests, Limits: c.Limits}
			if !spec {
				had.Requests, had.Limits = c.Running()
			}
			if !pairsOf(c, had, cluster.PodResources{Requests: fits[i].Requests, Limits: fits[i].Limits}, yield) {
				return
			}
		}
		if p.PodLevel != nil && len(fits) > 0 && fits[0].PodLevel != nil {
			pairsOf(&cluster.Container{}, *p.PodLevel, *fits[0].PodLevel, yield)
		}
	}
}

// pairsOf yields the Pairs of one container or of a pod. It returns false if the caller wants no more.
func pairsOf(c *cluster.Container, had, to cluster.PodResources, yield func(Pair) bool) bool {
	for _, res := range cluster.All {
		if amount, ok := to.Requests.Get(res); ok {
			from, set := had.Requests.Get(res)
			if !yield(Pair{Container: c, Resource: res, From: from, To: amount, Had: set}) {
				return false
			}
		}
		if amount, ok := to.Limits.Get(res); ok {
			from, set := had.Limits.Get(res)
			if !yield(Pair{Container: c, Resource: res, Limit: true, From: from, To: amount, Had: set}) {
				return false
			}
		}
	}
	return true
}

// counts reports whether a pair is a request that the scheduler counts: a pod-level request replaces those of the containers.
func (p Pair) counts(pod *cluster.Pod) bool {
	return !p.Limit && (p.Container.Name == "" || pod.PodLevel == nil || !pod.PodLevel.Requests.Has.Has(p.Resource))
}

func (p Pair) same() bool { return p.Had && Compare(p.Resource, p.To, p.From) == 0 }

// SameSize reports whether a pod already runs with the amounts of fits.
func SameSize(p *cluster.Pod, fits []policy.Fitted) bool { return allSame(p, fits, false) }

// IsAsked reports whether the pod's spec already has the amounts of fits.
func IsAsked(p *cluster.Pod, fits []policy.Fitted) bool { return allSame(p, fits, true) }

func allSame(p *cluster.Pod, fits []policy.Fitted, spec bool) bool {
	return !anyPair(p, fits, spec, func(x Pair) bool { return !x.same() })
}

func anyPair(p *cluster.Pod, fits []policy.Fitted, spec bool, holds func(Pair) bool) bool {
	for x := range Pairs(p, fits, spec) {
		if holds(x) {
			return true
		}
	}
	return false
}

// AsksLess reports whether fits lowers a request of the pod's spec by at least the given fraction.
func AsksLess(p *cluster.Pod, fits []policy.Fitted, part float64) bool {
	return anyPair(p, fits, true, func(x Pair) bool {
		return !x.Limit && x.Had && Compare(x.Resource, x.To, x.From) < 0 && float64(x.From)-float64(x.To) >= part*float64(x.From)
	})
}

// AsksLessThan reports whether a request of fits is lower than in before by at least the given fraction.
func AsksLessThan(fits, before []policy.Fitted, part float64) bool {
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

// AsksSmaller reports whether fits is a smaller size than before: a request is lower by at least the given fraction, and none is higher.
func AsksSmaller(fits, before []policy.Fitted, part float64) bool {
	return AsksLessThan(fits, before, part) && !AsksLessThan(before, fits, 0)
}

// AsksOther reports whether fits changes a request of the pod's spec by at least the given fraction.
func AsksOther(p *cluster.Pod, fits []policy.Fitted, part float64) bool {
	return AsksLess(p, fits, part) || anyPair(p, fits, true, func(x Pair) bool {
		larger := Compare(x.Resource, x.To, x.From) > 0 && float64(x.To)-float64(x.From) >= part*float64(x.From)
		return !x.Limit && (!x.Had || larger)
	})
}

// RaisesMemoryLimit reports whether fits raises a memory limit of the pod's spec.
func RaisesMemoryLimit(p *cluster.Pod, fits []policy.Fitted) bool {
	return anyPair(p, fits, true, func(x Pair) bool {
		return x.Limit && x.Resource == cluster.Memory && x.Had && Compare(x.Resource, x.To, x.From) > 0
	})
}

// Grows reports whether fits raises a request of the running pod.
func Grows(p *cluster.Pod, fits []policy.Fitted) bool {
	return anyPair(p, fits, false, func(x Pair) bool { return x.counts(p) && Compare(x.Resource, x.To, x.From) > 0 })
}

// Shrinks reports whether fits lowers a request of the running pod and raises none.
func Shrinks(p *cluster.Pod, fits []policy.Fitted) bool {
	return !Grows(p, fits) && anyPair(p, fits, false, func(x Pair) bool { return x.counts(p) && Compare(x.Resource, x.To, x.From) < 0 })
}

// Restarts reports whether a resize to fits would restart a container.
func Restarts(p *cluster.Pod, fits []policy.Fitted) bool {
	return anyPair(p, fits, false, func(x Pair) bool { return x.Container.Restart.Has(x.Resource) && (!x.Had || x.From != x.To) })
}

// OfRequests reports whether fits changes a request of the running pod, and not only limits.
func OfRequests(p *cluster.Pod, fits []policy.Fitted) bool {
	return anyPair(p, fits, false, func(x Pair) bool { return !x.Limit && x.From != x.To })
}

// ChangesQoS reports whether a resize to fits would change the pod's quality-of-service class, which the API server
// refuses. It returns false if the pod's current class does not follow from its spec.
func ChangesQoS(l policy.Limits, p *cluster.Pod, fits []policy.Fitted) bool {
	before := admissible.QoSOf(policy.Limits{}, p, nil)
	if p.QoS != cluster.UnknownQoS && p.QoS != before {
		return false
	}
	return admissible.QoSOf(l, p, fits) != before
}

// Total returns the requests that the scheduler counts for a pod with fits set on it: the sum of containers and sidecars, or, if
// larger, an init container together with the sidecars before it.
func Total(p *cluster.Pod, fits []policy.Fitted) cluster.Resources {
	sum := p.Total(func(i int) cluster.Resources {
		requests, _ := admissible.SizeOf(&p.Containers[i], fits)
		return requests
	})
	if level := admissible.PodLevelOf(p, fits); level != nil {
		return level.Requests.Or(sum)
	}
	return sum
}
