// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// Bounds of a required node affinity. One that exceeds them, or that has an unknown operator or field, is not evaluated.
const (
	maxRequirements = 16 // of all terms together; terms without requirements count as one
	maxNodeValues   = 64 // of all requirements together
)

// NodeSelector returns the node selector and the required node affinity of a pod. It returns false if one of them is not evaluated, so
// that the nodes for the pod are unknown. A nil Interner shares no strings.
func NodeSelector(p *corev1.PodSpec, in *Interner) (s cluster.NodeSelector, ok bool) {
	if selectorLength(p.NodeSelector) > longestSelector {
		return s, false
	}
	if required := requiredNodeAffinity(p); required != nil {
		if s.Terms, ok = nodeTerms(required.NodeSelectorTerms, in); !ok {
			return cluster.NodeSelector{}, false
		}
	}
	s.Labels = pairs(p.NodeSelector, in)
	return s, true
}

func requiredNodeAffinity(p *corev1.PodSpec) *corev1.NodeSelector {
	if p.Affinity == nil || p.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// nodeTerms returns the projection of the terms of an affinity. The API server accepts no affinity without terms.
func nodeTerms(all []corev1.NodeSelectorTerm, in *Interner) (out []cluster.NodeTerm, ok bool) {
	var requirements, values, length int
	for i := range all {
		t := &all[i]
		requirements += max(len(t.MatchExpressions)+len(t.MatchFields), 1)
		for _, list := range [...][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
			for j := range list {
				values += len(list[j].Values)
				length += len(list[j].Key)
				for _, v := range list[j].Values {
					length += len(v)
				}
			}
		}
		if requirements > maxRequirements || values > maxNodeValues || length > longestSelector {
			return nil, false
		}
	}
	for i := range all {
		term := cluster.NodeTerm{}
		for j := range all[i].MatchExpressions {
			r, known := nodeRequirement(&all[i].MatchExpressions[j], in)
			if !known {
				return nil, false
			}
			r.Prefix = in.String(all[i].MatchExpressions[j].Key + "=")
			term = append(term, r)
		}
		for j := range all[i].MatchFields {
			r, known := nodeRequirement(&all[i].MatchFields[j], in)
			if !known || all[i].MatchFields[j].Key != metav1.ObjectNameField {
				return nil, false
			}
			term = append(term, r)
		}
		out = append(out, term)
	}
	return out, len(out) > 0
}

var nodeOps = map[corev1.NodeSelectorOperator]cluster.SelectorOp{
	corev1.NodeSelectorOpIn: cluster.In, corev1.NodeSelectorOpNotIn: cluster.NotIn,
	corev1.NodeSelectorOpExists: cluster.Exists, corev1.NodeSelectorOpDoesNotExist: cluster.DoesNotExist,
	corev1.NodeSelectorOpGt: cluster.Above, corev1.NodeSelectorOpLt: cluster.Below,
}

// nodeRequirement returns the projection of a requirement without its key. It returns false if it is not valid.
func nodeRequirement(q *corev1.NodeSelectorRequirement, in *Interner) (r cluster.NodeRequirement, ok bool) {
	r.Op, ok = nodeOps[q.Operator]
	if !ok {
		return r, false
	}
	if r.Op == cluster.Above || r.Op == cluster.Below {
		if len(q.Values) != 1 {
			return r, false
		}
		bound, err := strconv.ParseInt(q.Values[0], 10, 64)
		r.Bound = bound
		return r, err == nil
	}
	for _, v := range q.Values {
		r.Values = append(r.Values, in.String(v))
	}
	return r, true
}

// nameOf returns a text that differs for different selectors.
func nameOf(s *cluster.NodeSelector) string {
	name := strings.Join(s.Labels, ",")
	for _, term := range s.Terms {
		name += "|"
		for _, r := range term {
			name += fmt.Sprintf("%q %d %q %d;", r.Prefix, r.Op, r.Values, r.Bound)
		}
	}
	return name
}
