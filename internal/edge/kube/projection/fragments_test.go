// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPod_allLabels_areKeptForEachController(t *testing.T) {
	p := new(corev1.Pod)
	p.Labels = map[string]string{"b": "2", "a": "1"}
	if m := Pod(p, &Interner{AllLabels: true}).Marks; m == nil || m.Labels != "a=1,b=2" {
		t.Errorf("marks %+v", m)
	}
	if m := Pod(p, new(Interner)).Marks; m != nil {
		t.Errorf("marks %+v without the option", m)
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
