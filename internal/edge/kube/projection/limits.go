// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// A LimitItem is one item of a LimitRange with the type Container or Pod.
type LimitItem struct {
	pod      bool
	min, max cluster.Resources
	dflt     cluster.Resources
	request  cluster.Resources // the default request
	ratio    cluster.Resources // maxLimitRequestRatio in thousandths
	defaults bool              // it has a list of defaults, possibly without CPU and memory
	fraction bool              // an amount is not a whole number of bytes
}

// LimitItems returns the items of a LimitRange with the type Container or Pod.
func LimitItems(l *corev1.LimitRange) []LimitItem {
	var out []LimitItem
	for i := range l.Spec.Limits {
		it := &l.Spec.Limits[i]
		if it.Type != corev1.LimitTypeContainer && it.Type != corev1.LimitTypePod {
			continue
		}
		out = append(out, LimitItem{
			pod:      it.Type == corev1.LimitTypePod,
			min:      kube.Amounts(it.Min),
			max:      kube.AmountsBelow(it.Max),
			dflt:     kube.AmountsBelow(it.Default),
			request:  kube.Amounts(it.DefaultRequest),
			ratio:    thousandths(it.MaxLimitRequestRatio),
			defaults: it.Default != nil,
			fraction: kube.HasFraction(it.Min, it.Max, it.Default, it.DefaultRequest),
		})
	}
	return out
}

// thousandths returns the CPU and memory of a list of ratios, each in thousandths, rounded down.
func thousandths(list corev1.ResourceList) cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if q, ok := list[corev1.ResourceName(res.String())]; ok {
			v := kube.Amount(cluster.CPU, q)
			if v > 1 && resource.NewMilliQuantity(v, resource.DecimalSI).Cmp(q) > 0 {
				v--
			}
			r = r.Set(res, v)
		}
	}
	return r
}

// MergeLimits returns the combined constraints of the items of LimitRanges, by the name of the LimitRange: the highest minimum,
// the lowest maximum and ratio, and the defaults of the last LimitRange by name that has defaults.
func MergeLimits(byName map[string][]LimitItem) cluster.LimitRange {
	var out cluster.LimitRange
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		for _, it := range byName[name] {
			r := &out.Container
			ratio := &out.ContainerRatio
			if it.pod {
				r = &out.Pod
				ratio = &out.PodRatio
			}
			r.Min = pick(r.Min, it.min, func(have, v int64) bool { return v > have })
			r.Max = pick(r.Max, it.max, func(have, v int64) bool { return v < have })
			out.Fractions = out.Fractions || it.fraction
			*ratio = pick(*ratio, it.ratio, func(have, v int64) bool { return v < have })
			if !it.pod {
				out.DefaultRequest = it.request.Or(out.DefaultRequest)
			}
			if it.defaults {
				r.Default = it.dflt
			}
		}
	}
	return out
}

// pick returns have, with each amount of other that have lacks or that is better.
func pick(have, other cluster.Resources, better func(have, v int64) bool) cluster.Resources {
	for _, res := range cluster.All {
		v, ok := other.Get(res)
		if !ok {
			continue
		}
		if h, set := have.Get(res); !set || better(h, v) {
			have = have.Set(res, v)
		}
	}
	return have
}
