// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/api/podfit/v1alpha1"
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
			r = r.Set(res, kube.AmountsBelow(corev1.ResourceList{corev1.ResourceCPU: q}).CPU) // thousandths, as of a core
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
			r.Min = r.Min.Highest(it.min)
			r.Max = r.Max.Lowest(it.max)
			out.Fractions = out.Fractions || it.fraction
			*ratio = ratio.Lowest(it.ratio)
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

// A limitName is the name of a rule for a limit, in an annotation or a SizingProfile.
type limitName struct {
	name string
	rule cluster.LimitRule
}

// limitNames are the rules of each resource.
var limitNames = map[cluster.Resource][]limitName{
	cluster.CPU: {{string(v1alpha1.KeepLimit), cluster.LimitRule{}}, {string(v1alpha1.RemoveLimit), cluster.LimitRule{Remove: true}}},
	cluster.Memory: {
		{string(v1alpha1.ProportionalLimit), cluster.LimitRule{}}, {string(v1alpha1.UnchangedLimit), cluster.LimitRule{Keep: true}},
		{string(v1alpha1.LimitByPeaks), cluster.LimitRule{Peaks: true}},
	},
}

// limitsOf returns what is done with the limits of a resource, from the annotations of an autoscaler. An invalid annotation has no effect, as if it
// was absent.
func limitsOf(r cluster.Resource, annotations map[string]string) cluster.LimitRule {
	name := cluster.Pick(r, v1alpha1.AnnotationCPULimits, v1alpha1.AnnotationMemoryLimits)
	text := strings.TrimSpace(annotations[name])
	if text == "" {
		return cluster.LimitRule{}
	}
	out := limitRule(r, text, "annotation "+name)
	out.Set = out.Problem == ""
	return out
}

// limitRule parses a rule. The problem of an unknown one starts with what.
func limitRule(r cluster.Resource, text, what string) cluster.LimitRule {
	known := limitNames[r]
	if found := cluster.Find(known, func(n *limitName) bool { return n.name == text }); found != nil {
		return found.rule
	}
	names := cluster.Each(known, func(n *limitName) string { return n.name })
	last := len(names) - 1
	return cluster.LimitRule{Problem: fmt.Sprintf("%s must be %s or %s, got %q; it has no effect",
		what, strings.Join(names[:last], ", "), names[last], quoted(text))}
}

// DisruptionBudget returns the projection of a PodDisruptionBudget.
func DisruptionBudget(b *policyv1.PodDisruptionBudget, in *Interner) cluster.DisruptionBudget {
	return cluster.DisruptionBudget{
		Name:        b.Name,
		Selector:    selectorOf(b.Spec.Selector, in),
		Healthy:     min(b.Status.CurrentHealthy, b.Status.DesiredHealthy+b.Status.DisruptionsAllowed), // fewer evictions are allowed after a failure to count pods
		Desired:     b.Status.DesiredHealthy,
		AlwaysAllow: ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow,
		Current:     b.Status.ObservedGeneration >= b.Generation,
	}
}

// selectorOf returns the projection of a label selector. An absent selector selects no pod, an empty one selects all.
func selectorOf(s *metav1.LabelSelector, in *Interner) cluster.Selector {
	if s == nil {
		return cluster.Selector{None: true}
	}
	var out cluster.Selector
	for k, v := range s.MatchLabels {
		out.Requirements = append(out.Requirements, cluster.Requirement{Prefix: in.String(k + "="), Values: []string{in.String(v)}})
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		r, known := requirement(e.Key+"=", string(e.Operator), e.Values, in)
		if !known || r.Op == cluster.Above || r.Op == cluster.Below {
			return cluster.Selector{None: true}
		}
		out.Requirements = append(out.Requirements, r)
	}
	return out
}
