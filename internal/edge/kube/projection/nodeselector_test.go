// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func podWithAffinity(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}}
}

func expressions(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: all}
}

func TestNodeSelector_requiredAffinity_isProjected(t *testing.T) {
	many := make([]corev1.NodeSelectorRequirement, maxRequirements+1)
	for i := range many {
		many[i] = corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists}
	}
	term := func(all ...cluster.Requirement) *cluster.NodeSelector {
		return &cluster.NodeSelector{Terms: []cluster.NodeTerm{all}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want *cluster.NodeSelector // nil: not evaluated
	}{
		"no affinity": {&corev1.Pod{}, &cluster.NodeSelector{}},
		"operators": {
			podWithAffinity(expressions(
				corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpIn, Values: []string{"x", "y"}},
				corev1.NodeSelectorRequirement{Key: "b", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"x"}},
				corev1.NodeSelectorRequirement{Key: "c", Operator: corev1.NodeSelectorOpExists},
				corev1.NodeSelectorRequirement{Key: "d", Operator: corev1.NodeSelectorOpDoesNotExist},
				corev1.NodeSelectorRequirement{Key: "e", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
				corev1.NodeSelectorRequirement{Key: "f", Operator: corev1.NodeSelectorOpLt, Values: []string{"-4"}},
			)),
			term(cluster.Requirement{Prefix: "a=", Values: []string{"x", "y"}}, cluster.Requirement{Prefix: "b=", Op: cluster.NotIn, Values: []string{"x"}},
				cluster.Requirement{Prefix: "c=", Op: cluster.Exists}, cluster.Requirement{Prefix: "d=", Op: cluster.DoesNotExist},
				cluster.Requirement{Prefix: "e=", Op: cluster.Above, Bound: 3}, cluster.Requirement{Prefix: "f=", Op: cluster.Below, Bound: -4}),
		},
		"name of a node": {
			podWithAffinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}),
			term(cluster.Requirement{Values: []string{"n1"}}),
		},
		"two terms, one without requirements": {podWithAffinity(corev1.NodeSelectorTerm{}, expressions(many[0])),
			&cluster.NodeSelector{Terms: []cluster.NodeTerm{{}, {{Prefix: "a=", Op: cluster.Exists}}}}},
		"no terms":              {podWithAffinity(), nil},
		"unknown operator":      {podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "a", Operator: "Like"})), nil},
		"unknown field":         {podWithAffinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "spec.x", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}), nil},
		"no number":             {podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpGt, Values: []string{"x"}})), nil},
		"two numbers":           {podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpLt, Values: []string{"1", "2"}})), nil},
		"too many requirements": {podWithAffinity(expressions(many...)), nil},
		"too many values":       {podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpIn, Values: make([]string, maxNodeValues+1)})), nil},
		"too long":              {podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: string(make([]byte, longestSelector+1)), Operator: corev1.NodeSelectorOpExists})), nil},
	} {
		got, ok := NodeSelector(&c.pod.Spec, new(Interner))
		if ok != (c.want != nil) {
			t.Errorf("%s: evaluated: %t", name, ok)
			continue
		}
		if c.want != nil {
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestPod_requiredAffinities_shareABoundedNumberOfPlaces(t *testing.T) {
	in := new(Interner)
	zone := func(zone string) *corev1.Pod {
		return podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}))
	}
	first := Pod(zone("a"), in).Place
	if again := Pod(zone("a"), in).Place; first != cluster.Selected || again != first {
		t.Errorf("places %d and %d of the same affinity, want %d", first, again, cluster.Selected)
	}
	both := zone("a")
	both.Spec.NodeSelector = map[string]string{"pool": "x"}
	if got := Pod(both, in).Place; got == first || got == cluster.Somewhere {
		t.Errorf("place %d with a node selector, want another one", got)
	}
	agent := zone("b")
	agent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	if got := Pod(agent, in).Place; got != cluster.Somewhere {
		t.Errorf("place %d of a pod of a DaemonSet", got)
	}
	for i := range maxAffinities {
		Pod(zone(fmt.Sprint(i)), in)
	}
	if got := Pod(zone("one more"), in).Place; got != cluster.Somewhere {
		t.Errorf("place %d with all affinities in use", got)
	}
	if !in.Crowded() {
		t.Error("Crowded returned false with all affinities in use")
	}
	for range 3 {
		in.ForgetSelectors(nil)
	}
	if got := Pod(zone("one more"), in).Place; got == cluster.Somewhere {
		t.Error("an affinity is not stored after unused ones were freed")
	}
}

// A namespace gets at most what it leaves to others, so the list is bounded, and no tenant fills it.
func TestInterner_oneNamespaceHasAnyNumberOfAffinities_othersKeepTheirs(t *testing.T) {
	in := new(Interner)
	place := func(namespace string, zone string) cluster.Place {
		p := podWithAffinity(expressions(corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}))
		p.Namespace = namespace
		return Pod(p, in).Place
	}
	for i := range 10 * maxAffinities {
		place("aaa", fmt.Sprint("a", i))
	}
	if got := place("aaa", "one more"); got != cluster.Somewhere {
		t.Errorf("place %d of one more affinity of the same namespace, want none", got)
	}
	for i := range 50 {
		if got := place("shop", fmt.Sprint("s", i)); got == cluster.Somewhere {
			t.Fatalf("affinity %d of another namespace has no place", i)
		}
	}
	for i := range 10 * maxAffinities {
		place(fmt.Sprint("ns", i), fmt.Sprint("n", i))
	}
	if in.affinities.total > maxAffinities || len(in.selectors) > maxAffinities {
		t.Errorf("%d affinities and %d selectors are stored, want at most %d", in.affinities.total, len(in.selectors), maxAffinities)
	}
	for range 3 {
		in.ForgetSelectors(nil)
	}
	if in.affinities.total+in.selected.total+len(in.affinities.of)+len(in.selected.of) != 0 {
		t.Errorf("after all were freed: %+v, %+v", in.affinities, in.selected)
	}
}
