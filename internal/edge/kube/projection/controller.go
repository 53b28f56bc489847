// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podfit.dev/podfit/internal/core/cluster"
)

// A controller is what is kept of a controller of a well-known kind.
type ControllerState struct {
	Parent cluster.Workload // the controller that owns it, zero when none does
	Scale  cluster.Scale
}

// projectController returns what is kept of a controller: who owns it, and how many replicas it wants. Of the kinds
// watched for their metadata only, the replicas stay unknown.
func Controller(o runtime.Object, in *Interner) ControllerState {
	m, ok := o.(metav1.Object)
	if !ok {
		return ControllerState{}
	}
	c := ControllerState{Parent: ControllerOf(m.GetOwnerReferences(), m.GetNamespace(), in)}
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		c.Scale = wanted(o.Spec.Replicas)
	case *appsv1.StatefulSet:
		c.Scale = wanted(o.Spec.Replicas)
	case *corev1.ReplicationController:
		c.Scale = wanted(o.Spec.Replicas)
	case *appsv1.DaemonSet:
		c.Scale = cluster.Scale{Known: true, Replicas: o.Status.DesiredNumberScheduled, Ready: o.Status.NumberReady}
	}
	return c
}

// wanted is the scale of a controller by its spec; without a number the API server's default is 1.
func wanted(replicas *int32) cluster.Scale {
	if replicas == nil {
		return cluster.Scale{Known: true, Replicas: 1}
	}
	return cluster.Scale{Known: true, Replicas: *replicas}
}
