// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"fmt"
	"reflect"
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

// maxTolerations bounds the tolerations of a pod. A pod with more of them counts as tolerating all taints.
const maxTolerations = 16

// A toleranceList has the different lists of tolerations of pods. Entries are never removed. A pod whose tolerations have no room
// in the list is Unlisted. The mutex of the interner guards it.
type toleranceList struct {
	known map[string]cluster.Tolerance
	all   []cluster.Tolerations // from cluster.FirstListed on
	taken shares
}

// tolerance returns the number of the tolerations of a pod in the list.
func (in *Interner) tolerance(p *corev1.Pod) cluster.Tolerance {
	ts := tolerations(&p.Spec)
	switch {
	case len(ts) == 0:
		return cluster.NoTaint
	case len(ts) > maxTolerations, in == nil:
		return cluster.AnyTaint
	}
	name := fmt.Sprintf("%+v", ts)
	in.mu.Lock()
	defer in.mu.Unlock()
	l := &in.tolerances
	if known, ok := l.known[name]; ok {
		return known
	}
	next := len(l.all) + int(cluster.FirstListed)
	if !l.taken.mayTake(p.Namespace, int(cluster.Unlisted-cluster.FirstListed)) {
		return cluster.Unlisted
	}
	l.taken.add(strings.Clone(p.Namespace), 1)
	cluster.Put(&l.known, name, cluster.Tolerance(next))
	l.all = append(l.all, ts)
	return cluster.Tolerance(next)
}

// tolerations returns the tolerations of taints that reserve nodes, sorted. Operators that compare numbers count as Exists.
func tolerations(p *corev1.PodSpec) cluster.Tolerations {
	var out cluster.Tolerations
	for i := range p.Tolerations {
		t := &p.Tolerations[i]
		if transientTaints[t.Key] || t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		exists := t.Operator != "" && t.Operator != corev1.TolerationOpEqual
		out = append(out, cluster.Toleration{
			Key: strings.Clone(t.Key), Value: strings.Clone(t.Value), Exists: exists, Effect: strings.Clone(string(t.Effect)),
		})
	}
	slices.SortFunc(out, func(a, b cluster.Toleration) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value), strings.Compare(a.Effect, b.Effect))
	})
	return out
}

// TolerationsOf returns the tolerations of a pod. It returns false if there are too many, so that the pod counts as tolerating all taints.
func TolerationsOf(p *corev1.PodSpec) (all cluster.Tolerations, ok bool) {
	all = tolerations(p)
	return all, len(all) <= maxTolerations
}

// Tolerations returns the tolerations of pods: those of a pod with tolerance t are at index t - cluster.FirstListed.
func (in *Interner) Tolerations() []cluster.Tolerations {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.tolerances.all)
}

// localData reports whether a pod has volumes with data that its replacement does not have, and whether one of them is not an emptyDir: the
// data is deleted together with the pod, or stays on the node, where the replacement may not run. An emptyDir in memory does not count, because its data is as
// short-lived as that of a process. Neither does a PersistentVolumeClaim that the pod does not own: the replacement mounts it again.
func localData(volumes []corev1.Volume) (local, own bool) {
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			local = true
		case v.HostPath != nil, v.Ephemeral != nil, v.CSI != nil && (v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly):
			return true, true
		}
	}
	return local, false
}

// isTied reports whether a pod has a scheduling constraint that podfit does not evaluate, so that it is not known whether another
// node would take it. Preferences do not count.
func isTied(spec *corev1.PodSpec) bool {
	spread := cluster.Find(spec.TopologySpreadConstraints, func(c *corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule })
	claim := cluster.Find(spec.Volumes, func(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	a := cmp.Or(spec.Affinity, new(corev1.Affinity))
	near := cmp.Or(a.PodAffinity, new(corev1.PodAffinity)).RequiredDuringSchedulingIgnoredDuringExecution
	apart := cmp.Or(a.PodAntiAffinity, new(corev1.PodAntiAffinity)).RequiredDuringSchedulingIgnoredDuringExecution
	return len(near) > 0 || len(apart) > 0 || spread != nil || claim != nil || spec.HostNetwork || len(spec.ResourceClaims) > 0 || spec.Resources != nil && needsMore(&corev1.Container{Resources: *spec.Resources}) || cluster.Find(spec.Containers, needsMore) != nil || cluster.Find(spec.InitContainers, needsMore) != nil
}

// avoid adds the pods that a required anti-affinity of a pod keeps away to Avoided, by namespace: "" if other namespaces count, too.
func (in *Interner) avoid(p *corev1.Pod) {
	if in == nil || in.Avoided == nil || p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, term := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		ns := p.Namespace
		if term.NamespaceSelector != nil || len(term.Namespaces) > 0 {
			ns = ""
		}
		all := in.Avoided[ns]
		added := selectorOf(term.LabelSelector, nil)
		cluster.FindOrAdd(&all, func(s *cluster.Selector) bool { return reflect.DeepEqual(*s, added) }, added)
		in.Avoided[ns] = all
	}
}

// needsMore reports whether a container needs something of a node besides CPU and memory.
func needsMore(c *corev1.Container) bool {
	if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 }) {
		return true
	}
	for _, amounts := range [...]corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name := range amounts {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				return true
			}
		}
	}
	return false
}
