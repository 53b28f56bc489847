// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// The scopes of a quota are read within these bounds. Beyond them, it is unknown which pods the quota counts.
const (
	maxScopes     = 16
	maxScopeBytes = 1024 // total length of the names of priority classes
)

// Quota returns the projection of a ResourceQuota.
func Quota(q *corev1.ResourceQuota) cluster.Quota {
	out := cluster.Quota{Name: q.Name}
	for _, of := range [...]struct {
		to   *cluster.Resources
		hard *cluster.Resources
		res  cluster.Resource
		keys []corev1.ResourceName
	}{
		{to: &out.Left.Requests, hard: &out.Hard.Requests, res: cluster.CPU, keys: []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceRequestsCPU}},
		{to: &out.Left.Requests, hard: &out.Hard.Requests, res: cluster.Memory, keys: []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceRequestsMemory}},
		{to: &out.Left.Limits, hard: &out.Hard.Limits, res: cluster.CPU, keys: []corev1.ResourceName{corev1.ResourceLimitsCPU}},
		{to: &out.Left.Limits, hard: &out.Hard.Limits, res: cluster.Memory, keys: []corev1.ResourceName{corev1.ResourceLimitsMemory}},
	} {
		for _, key := range of.keys {
			left, bounds, counted := leftOf(q, key)
			out.NotCounted = out.NotCounted || bounds && !counted
			if bounds {
				*of.to = of.to.Lowest(cluster.Resources{}.Set(of.res, kube.Floor(of.res, left)))
				*of.hard = of.hard.Lowest(cluster.Resources{}.Set(of.res, kube.Floor(of.res, q.Status.Hard[key])))
			}
		}
	}
	left, bounds, counted := leftOf(q, corev1.ResourcePods)
	out.BoundsPods, out.PodsLeft = bounds, kube.SignedAmount(cluster.Memory, left) // pods are whole numbers, too
	out.NotCounted = out.NotCounted || bounds && !counted
	out.Scopes = scopesOf(&q.Spec)
	return out
}

// scopesOf returns the scopes of a quota, or a single unreadable one if they exceed the bounds.
func scopesOf(spec *corev1.ResourceQuotaSpec) []cluster.QuotaScope {
	all := cluster.Each(spec.Scopes, func(s *corev1.ResourceQuotaScope) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: *s, Operator: corev1.ScopeSelectorOpExists}
	})
	if spec.ScopeSelector != nil {
		all = append(all, spec.ScopeSelector.MatchExpressions...)
	}
	size := 0
	for _, s := range all {
		for _, name := range s.Values {
			size += len(name)
		}
	}
	if len(all) > maxScopes || size > maxScopeBytes {
		return []cluster.QuotaScope{{Kind: cluster.UnreadableScope}}
	}
	var out []cluster.QuotaScope
	for _, s := range all {
		out = append(out, scopeOf(s))
	}
	return out
}

// leftOf returns the unused amount of a resource, whether the quota bounds it, and whether its usage has been counted.
func leftOf(q *corev1.ResourceQuota, key corev1.ResourceName) (left resource.Quantity, bounds, counted bool) {
	left, bounds = q.Status.Hard[key]
	used, counted := q.Status.Used[key]
	if !bounds {
		return resource.Quantity{}, false, false
	}
	left = left.DeepCopy()
	left.Sub(used)
	return left, true, counted
}

// scopeKinds are the known scopes of a quota, besides that of priority classes.
var scopeKinds = map[corev1.ResourceQuotaScope]cluster.ScopeKind{
	corev1.ResourceQuotaScopeTerminating:               cluster.TerminatingScope,
	corev1.ResourceQuotaScopeNotTerminating:            cluster.NotTerminatingScope,
	corev1.ResourceQuotaScopeBestEffort:                cluster.BestEffortScope,
	corev1.ResourceQuotaScopeNotBestEffort:             cluster.NotBestEffortScope,
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity: cluster.CrossNamespaceAffinityScope,
	corev1.ResourceQuotaScopeVolumeAttributesClass:     cluster.NoPodScope,
}

var classScopes = map[corev1.ScopeSelectorOperator]cluster.ScopeKind{
	corev1.ScopeSelectorOpExists: cluster.PriorityClassExists, corev1.ScopeSelectorOpDoesNotExist: cluster.PriorityClassDoesNotExist,
	corev1.ScopeSelectorOpIn: cluster.PriorityClassIn, corev1.ScopeSelectorOpNotIn: cluster.PriorityClassNotIn,
}

func scopeOf(s corev1.ScopedResourceSelectorRequirement) cluster.QuotaScope {
	if s.ScopeName != corev1.ResourceQuotaScopePriorityClass {
		return cluster.QuotaScope{Kind: scopeKinds[s.ScopeName]}
	}
	out := cluster.QuotaScope{Kind: classScopes[s.Operator]}
	if out.Kind == cluster.PriorityClassIn || out.Kind == cluster.PriorityClassNotIn {
		out.Classes = slices.Clone(s.Values)
	}
	return out
}

// MergeQuotas returns the quotas that may bound the size of a pod, sorted, or nil if there are none.
func MergeQuotas(all []cluster.Quota) *cluster.Quotas {
	all = slices.DeleteFunc(all, func(q cluster.Quota) bool { // it bounds neither CPU nor memory, and selects no pods by them
		return q.Left.Requests.Has.Empty() && q.Left.Limits.Has.Empty() && len(q.Scopes) == 0
	})
	if len(all) > cluster.MostQuotas {
		return &cluster.Quotas{TooMany: true}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b cluster.Quota) int { return strings.Compare(a.Name, b.Name) })
	return &cluster.Quotas{List: all}
}
