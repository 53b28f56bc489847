// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
)

// A ControllerState is the projection of a controller of a well-known kind.
type ControllerState struct {
	Parent cluster.Workload // the controller that owns it, zero when none does
	Scale  cluster.Scale
	Daemon *cluster.Daemon // only of a DaemonSet that takes room of its nodes, and whose pods have its present template

	RollingOut bool // a DaemonSet most of whose ready pods may have an earlier template

	Surging bool // a Deployment with the annotation podfit.dev/surge
}

// Controller returns the owner and the scale of a controller. For kinds of which only the metadata is watched, the scale is
// unknown.
func Controller(o runtime.Object, in *Interner) ControllerState {
	m, ok := o.(metav1.Object)
	if !ok {
		return ControllerState{}
	}
	c := ControllerState{Parent: ControllerOf(m.GetOwnerReferences(), m.GetNamespace(), in)}
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		_, c.Surging = o.Annotations[v1alpha1.AnnotationSurge]
	case *appsv1.ReplicaSet:
		c.Scale = specScale(o.Spec.Replicas, o.Spec.MinReadySeconds)
	case *appsv1.StatefulSet:
		c.Scale = specScale(o.Spec.Replicas, o.Spec.MinReadySeconds)
	case *corev1.ReplicationController:
		c.Scale = specScale(o.Spec.Replicas, o.Spec.MinReadySeconds)
	case *appsv1.DaemonSet:
		c.Scale = cluster.Scale{Known: true, Replicas: o.Status.DesiredNumberScheduled, Ready: o.Status.NumberReady, MinReady: seconds(int64(o.Spec.MinReadySeconds))}
		if c.RollingOut = isRollingOut(o); !c.RollingOut {
			c.Daemon = daemon(o, in)
		}
	}
	return c
}

// specScale returns the scale by the spec of a controller. Without a number, the default of the API server is 1.
func specScale(replicas *int32, minReady int32) cluster.Scale {
	s := cluster.Scale{Known: true, Replicas: 1, MinReady: seconds(int64(minReady))}
	if replicas != nil {
		s.Replicas = *replicas
	}
	return s
}
