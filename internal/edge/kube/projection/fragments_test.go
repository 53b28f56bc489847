// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestPod_allLabels_areKeptForEachController(t *testing.T) {
	p := new(corev1.Pod)
	p.Labels = map[string]string{"b": "2", "a": "1"}
	if m := Pod(p, &Interner{Avoided: map[string][]cluster.Selector{}}).Marks; m == nil || m.Labels != "a=1,b=2" {
		t.Errorf("marks %+v", m)
	}
	if m := Pod(p, new(Interner)).Marks; m != nil {
		t.Errorf("marks %+v without the option", m)
	}
}

// The pods that an anti-affinity keeps away are known by namespace. One that names namespaces counts for all of them.
func TestPod_requiredAntiAffinity_isCollectedOnce(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	in := &Interner{Avoided: map[string][]cluster.Selector{}}
	for range 3 {
		p := new(corev1.Pod)
		p.Namespace = "shop"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selector}, {}, {LabelSelector: selector, Namespaces: []string{"a", "b"}}, {LabelSelector: selector, NamespaceSelector: new(metav1.LabelSelector)},
		}}}
		Pod(p, in)
		Pod(p, nil)
		Pod(p, new(Interner))
	}
	if len(in.Avoided) != 2 || len(in.Avoided["shop"]) != 2 || len(in.Avoided[""]) != 1 {
		t.Fatalf("collected: %+v", in.Avoided)
	}
	if s := in.Avoided["shop"]; !s[0].Matches([]string{"app=web"}) || s[0].Matches([]string{"app=api"}) || s[1].Matches([]string{"app=web"}) {
		t.Errorf("selectors %+v", s)
	}
}

func TestPod_hugePagesOfThePod_isTied(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{"hugepages-2Mi": true, corev1.ResourceCPU: false} {
		p := new(corev1.Pod)
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("2")}}
		if got := Pod(p, nil).Tied; got != want {
			t.Errorf("%s: tied %t", name, got)
		}
	}
}

// The API server refuses an eviction if status.disruptionsAllowed is 0, also if more pods are healthy than desired: their controller could not count them.
func TestDisruptionBudget_noDisruptionsAllowed_noneIsToSpare(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2}}
	if got := DisruptionBudget(b, nil); got.Healthy > got.Desired {
		t.Errorf("%d of %d are healthy", got.Healthy, got.Desired)
	}
	b.Status.DisruptionsAllowed = 1
	if got := DisruptionBudget(b, nil); got.Healthy != 3 {
		t.Errorf("%d are healthy, want 3", got.Healthy)
	}
}

func TestPod_safeToEvict_isEvictableOrProtected(t *testing.T) {
	for value, want := range map[string][2]bool{"true": {true, false}, "false": {false, true}} {
		p := new(corev1.Pod)
		p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": value}
		if m := Pod(p, nil).Marks; m == nil || m.Evictable != want[0] || (m.Protection != "") != want[1] {
			t.Errorf("%s: marks %+v", value, m)
		}
	}
}

func TestNode_allocatablePods_areItsMaximum(t *testing.T) {
	n := new(corev1.Node)
	if got := Node(n, nil).MaxPods; got != 0 {
		t.Errorf("%d pods are allocatable although that is not known", got)
	}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("30")}
	if got := Node(n, nil).MaxPods; got != 30 {
		t.Errorf("got %d, want 30", got)
	}
}

func TestPod_schedulingGates_areKept(t *testing.T) {
	p := &corev1.Pod{}
	if m := Pod(p, nil).Marks; m != nil {
		t.Errorf("a pod without gates: %+v", m)
	}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
	if m := Pod(p, nil).Marks; m == nil || !m.Gated {
		t.Errorf("a pod with a gate: %+v", m)
	}
}
