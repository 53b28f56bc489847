// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// limitItem is one item of a LimitRange that speaks of containers or pods.
type limitItem struct {
	pod      bool
	min, max cluster.Resources
	dflt     cluster.Resources
	defaults bool // it has a default list, possibly without CPU and memory
}

func projectLimitRange(l *corev1.LimitRange) []limitItem {
	var out []limitItem
	for i := range l.Spec.Limits {
		it := &l.Spec.Limits[i]
		if it.Type != corev1.LimitTypeContainer && it.Type != corev1.LimitTypePod {
			continue
		}
		out = append(out, limitItem{
			pod:      it.Type == corev1.LimitTypePod,
			min:      amounts(it.Min),
			max:      amounts(it.Max),
			dflt:     amounts(it.Default),
			defaults: it.Default != nil,
		})
	}
	return out
}

// mergeLimits returns what the limit ranges of one namespace demand together: the highest minimum, the lowest maximum,
// and the default of the last one by name that has one.
func mergeLimits(byName map[string][]limitItem) cluster.LimitRange {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	var out cluster.LimitRange
	for _, name := range names {
		for _, it := range byName[name] {
			r := &out.Container
			if it.pod {
				r = &out.Pod
			}
			r.Min = pick(r.Min, it.min, func(have, v int64) bool { return v > have })
			r.Max = pick(r.Max, it.max, func(have, v int64) bool { return v < have })
			if it.defaults {
				r.Default = it.dflt
			}
		}
	}
	return out
}

// pick returns have with each amount of other that have lacks or that is better.
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
