// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// DisruptionBudget returns the projection of a PodDisruptionBudget.
func DisruptionBudget(b *policyv1.PodDisruptionBudget, in *Interner) cluster.DisruptionBudget {
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return cluster.DisruptionBudget{
		Name:        b.Name,
		Selector:    selectorOf(b.Spec.Selector, in),
		Healthy:     b.Status.CurrentHealthy,
		Desired:     b.Status.DesiredHealthy,
		AlwaysAllow: policy != nil && *policy == policyv1.AlwaysAllow,
		Current:     b.Status.ObservedGeneration >= b.Generation,
	}
}

var selectorOps = map[metav1.LabelSelectorOperator]cluster.SelectorOp{
	metav1.LabelSelectorOpIn: cluster.In, metav1.LabelSelectorOpNotIn: cluster.NotIn,
	metav1.LabelSelectorOpExists: cluster.Exists, metav1.LabelSelectorOpDoesNotExist: cluster.DoesNotExist,
}

// selectorOf returns the projection of a label selector. An absent selector selects no pod, an empty one selects all.
func selectorOf(s *metav1.LabelSelector, in *Interner) cluster.Selector {
	if s == nil {
		return cluster.Selector{None: true}
	}
	var out cluster.Selector
	for k, v := range s.MatchLabels {
		out.Requirements = append(out.Requirements, cluster.Requirement{Key: in.String(k), Values: []string{in.String(v)}})
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		op, known := selectorOps[e.Operator]
		if !known {
			return cluster.Selector{None: true}
		}
		r := cluster.Requirement{Key: in.String(e.Key), Op: op}
		for _, v := range e.Values {
			r.Values = append(r.Values, in.String(v))
		}
		out.Requirements = append(out.Requirements, r)
	}
	return out
}
