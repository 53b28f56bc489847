// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// The requests of a DaemonSet bound the pods of other tenants, so a template whose pods do not run must not count.
func TestWorld_templateOfADaemonSetChanges_requestsOfItsReadyPodsCount(t *testing.T) {
	const all = 4
	set := func(cpu string, updated, ready int32) projection.ControllerState {
		o := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: all, UpdatedNumberScheduled: updated, NumberReady: ready}}
		o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}
		return projection.Controller(o, nil)
	}
	key := cluster.Key{Namespace: "tenant", Name: "agent"}
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	sets := w.owners.known[projection.GroupKind{Group: "apps", Kind: "DaemonSet"}]
	for _, step := range []struct {
		name string
		now  projection.ControllerState
		cpu  int64 // of the DaemonSet; 0: it does not count
	}{
		{"seen first during a rollout", set("1000", 0, all), 0},
		{"all pods have the template", set("100m", all, all), 100},
		{"strategy OnDelete and a new template", set("1000", 0, all), 100},
		{"the first new pod cannot start", set("1000", 1, all-1), 100},
		{"most of the new pods are ready", set("200m", 3, all), 200},
		{"most pods of the present template are not ready", set("200m", all, 1), 0},
	} {
		sets.Put(key, step.now)
		var cpu int64
		for _, d := range w.Daemons() {
			cpu += d.Requests.CPU
		}
		if cpu != step.cpu {
			t.Errorf("%s: the DaemonSet takes %dm of each node, want %dm", step.name, cpu, step.cpu)
		}
	}
}
