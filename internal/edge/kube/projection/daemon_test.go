// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
)

// The requests of a DaemonSet are subtracted from all nodes that it selects. Any tenant can create a DaemonSet whose pods never run, or
// run on one node only. It must not make the pods of others smaller.
func TestController_daemonSets_thoseThatRunOnTheirNodesCount(t *testing.T) {
	const cpu = "1"
	set := func(change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		o := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4, CurrentNumberScheduled: 4, UpdatedNumberScheduled: 4, NumberReady: 4}}
		o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}
		change(o)
		return o
	}
	node := &cluster.Node{Labels: []string{"pool=a"}}
	for name, c := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		"all pods are ready":         {func(*appsv1.DaemonSet) {}, true},
		"half of the pods are ready": {func(o *appsv1.DaemonSet) { o.Status.NumberReady = 2 }, true},
		"most pods are not ready":    {func(o *appsv1.DaemonSet) { o.Status.NumberReady = 1 }, false},
		"no pod is ready":            {func(o *appsv1.DaemonSet) { o.Status.NumberReady = 0 }, false},
		"no node is selected":        {func(o *appsv1.DaemonSet) { o.Status = appsv1.DaemonSetStatus{} }, false},
		"the status has a large value": {func(o *appsv1.DaemonSet) {
			o.Status.DesiredNumberScheduled, o.Status.UpdatedNumberScheduled, o.Status.NumberReady = 1<<31-1, 1<<31-1, 1<<30+1
		}, true},
		"half of the pods are updated":    {func(o *appsv1.DaemonSet) { o.Status.UpdatedNumberScheduled = 2 }, true},
		"most pods have the old template": {func(o *appsv1.DaemonSet) { o.Status.UpdatedNumberScheduled = 1 }, false},
		"the updated pods are not ready":  {func(o *appsv1.DaemonSet) { o.Status.UpdatedNumberScheduled, o.Status.NumberReady = 2, 2 }, false},
		"no pod is updated":               {func(o *appsv1.DaemonSet) { o.Status.UpdatedNumberScheduled = 0 }, false},
		"the status is of another spec":   {func(o *appsv1.DaemonSet) { o.Generation, o.Status.ObservedGeneration = 2, 1 }, false},
		"the template names a node":       {func(o *appsv1.DaemonSet) { o.Spec.Template.Spec.NodeName = "n1" }, false},
		"required node affinity": {func(o *appsv1.DaemonSet) {
			o.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		}, false},
		"other node selector": {func(o *appsv1.DaemonSet) { o.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "b"} }, false},
		"no requests": {func(o *appsv1.DaemonSet) {
			o.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}, false},
	} {
		d := Controller(set(c.change), nil).Daemon
		if got := d != nil && d.RunsOn(node); got != c.want {
			t.Errorf("%s: counts %t, want %t", name, got, c.want)
		}
	}
}
