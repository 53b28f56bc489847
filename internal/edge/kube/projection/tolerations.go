// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

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
