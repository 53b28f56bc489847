// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

// MostAmount bounds every amount that is read from an object (1 PiB, or as many millicores), so that sums and ratios of any
// quantities fit in int64.
const MostAmount = 1 << 50

// Amounts returns the CPU and memory of a resource list. CPU is rounded up to whole millicores, memory to whole bytes.
func Amounts(list corev1.ResourceList) cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if q, ok := list[corev1.ResourceName(res.String())]; ok {
			r = r.Set(res, Amount(res, q))
		}
	}
	return r
}

// AmountsBelow is Amounts for maxima, such as limits: amounts are rounded down, but not to zero. For example, 0.1Gi of memory is a
// fraction of a byte above a whole number, and the API server would refuse the next whole number.
func AmountsBelow(list corev1.ResourceList) cluster.Resources {
	r := Amounts(list)
	for _, res := range cluster.All {
		if v, ok := r.Get(res); ok && v > 1 {
			r = r.Set(res, Floor(res, list[corev1.ResourceName(res.String())]))
		}
	}
	return r
}

// SizeOf returns requests and limits. A request that is at most its limit is still at most its limit after rounding.
func SizeOf(r *corev1.ResourceRequirements) (requests, limits cluster.Resources) {
	requests = Amounts(r.Requests)
	limits = AmountsBelow(r.Limits)
	for _, res := range cluster.All {
		name := corev1.ResourceName(res.String())
		request := r.Requests[name]
		limit := r.Limits[name]
		if v, ok := limits.Get(res); ok && requests.Amount(res) > v && request.Cmp(limit) <= 0 {
			requests = requests.Set(res, v)
		}
	}
	return requests, limits
}

// HasFraction reports whether the memory amount of one of the lists is not a whole number of bytes.
func HasFraction(lists ...corev1.ResourceList) bool {
	return slices.ContainsFunc(lists, func(list corev1.ResourceList) bool {
		q := list[corev1.ResourceMemory]
		_, whole := q.AsInt64() // as an amount that is not set
		return !whole && resource.NewQuantity(q.Value(), resource.BinarySI).Cmp(q) != 0
	})
}

// Amount returns a quantity in the unit of a resource, rounded up, or the nearest value from 0 to MostAmount.
func Amount(res cluster.Resource, q resource.Quantity) int64 { return max(SignedAmount(res, q), 0) }

// SignedAmount returns a quantity in the unit of a resource, rounded up, or the nearest value from -MostAmount to MostAmount.
// MilliValue and Value alone return 0 or a value of the wrong sign for a quantity that does not fit in int64.
func SignedAmount(res cluster.Resource, q resource.Quantity) int64 {
	switch approximate := q.AsApproximateFloat64(); {
	case approximate >= MostAmount:
		return MostAmount
	case approximate <= -MostAmount:
		return -MostAmount
	}
	v := q.Value()
	if res == cluster.CPU {
		v = q.MilliValue()
	}
	return min(max(v, -MostAmount), MostAmount)
}

// Floor is SignedAmount, rounded down.
func Floor(res cluster.Resource, q resource.Quantity) int64 {
	v := SignedAmount(res, q)
	if rounded := Quantity(res, v); rounded.Cmp(q) > 0 && v > -MostAmount {
		v--
	}
	return v
}

// ParseQuantity parses a quantity that a user has written, unless that could take minutes.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := v1.CheckQuantity(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Quantities returns r as a resource list in upstream's format: CPU as decimal millicores, memory in bytes. It returns nil if r is
// empty.
func Quantities(r cluster.Resources) corev1.ResourceList {
	var list corev1.ResourceList
	for _, res := range cluster.All {
		if v, ok := r.Get(res); ok {
			cluster.Put(&list, corev1.ResourceName(res.String()), Quantity(res, v))
		}
	}
	return list
}

// Quantity returns an amount as a quantity: CPU in millicores, memory in bytes.
func Quantity(res cluster.Resource, v int64) resource.Quantity {
	if res == cluster.CPU {
		return *resource.NewMilliQuantity(v, resource.DecimalSI)
	}
	return *resource.NewQuantity(v, resource.BinarySI)
}

// ResourceSet returns those of the named resources that podfit sizes.
func ResourceSet(names []corev1.ResourceName) cluster.Set {
	var s cluster.Set
	for _, n := range names {
		if r, ok := cluster.ParseResource(string(n)); ok {
			s = s.With(r)
		}
	}
	return s
}
