// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"slices"
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
	if lengthOf(p.NodeSelector) > longestSelector {
		return s, false
	}
	if required := requiredNodeAffinity(p); required != nil {
		if s.Terms, ok = nodeTerms(required.NodeSelectorTerms, in); !ok {
			return cluster.NodeSelector{}, false
		}
	}
	s.Labels = Pairs(p.NodeSelector, in)
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
		for _, q := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			values += len(q.Values)
			length += len(q.Key) + len(strings.Join(q.Values, ""))
		}
		if requirements > maxRequirements || values > maxNodeValues || length > longestSelector {
			return nil, false
		}
	}
	for i := range all {
		term := cluster.NodeTerm{}
		for k, q := range slices.Concat(all[i].MatchExpressions, all[i].MatchFields) {
			prefix := q.Key + "="
			isField := k >= len(all[i].MatchExpressions)
			if isField {
				prefix = ""
			}
			r, known := requirement(prefix, string(q.Operator), q.Values, in)
			if !known || isField && q.Key != metav1.ObjectNameField {
				return nil, false
			}
			term = append(term, r)
		}
		out = append(out, term)
	}
	return out, len(out) > 0
}

// selectorOps are the operators of node affinities. Those of label selectors have the same names.
var selectorOps = map[string]cluster.SelectorOp{
	string(corev1.NodeSelectorOpIn): cluster.In, string(corev1.NodeSelectorOpNotIn): cluster.NotIn,
	string(corev1.NodeSelectorOpExists): cluster.Exists, string(corev1.NodeSelectorOpDoesNotExist): cluster.DoesNotExist,
	string(corev1.NodeSelectorOpGt): cluster.Above, string(corev1.NodeSelectorOpLt): cluster.Below,
}

// requirement returns the projection of a requirement of a label selector or a node affinity. It returns false if it is not valid.
func requirement(prefix, op string, values []string, in *Interner) (r cluster.Requirement, ok bool) {
	r.Op, ok = selectorOps[op]
	if !ok {
		return r, false
	}
	r.Prefix = in.String(prefix)
	if r.Op == cluster.Above || r.Op == cluster.Below {
		if len(values) != 1 {
			return r, false
		}
		bound, err := strconv.ParseInt(values[0], 10, 64)
		r.Bound = bound
		return r, err == nil
	}
	for _, v := range values {
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
