// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
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
		c.Scale = cluster.Scale{Known: true, Replicas: o.Status.DesiredNumberScheduled, MinReady: seconds(int64(o.Spec.MinReadySeconds))}
		if c.RollingOut = isRollingOut(o); !c.RollingOut {
			c.Daemon = daemon(o, in)
		}
	}
	return c
}

// specScale returns the scale by the spec of a controller. Without a number, the default of the API server is 1.
func specScale(replicas *int32, minReady int32) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: ptr.Deref(replicas, 1), MinReady: seconds(int64(minReady))}
}

// daemon returns what a pod of a DaemonSet takes of a node, according to its template. It returns nil if the DaemonSet does not take room
// of all nodes that it selects: if most of its pods are not ready, or if its template names a node. Any tenant can create such a DaemonSet
// with large requests, and the sizes of the pods of others depend on what DaemonSets leave.
func daemon(o *appsv1.DaemonSet, in *Interner) *cluster.Daemon {
	spec := &o.Spec.Template.Spec
	ready := o.Status.NumberReady
	desired := o.Status.DesiredNumberScheduled
	if ready <= 0 || ready < desired-ready || spec.NodeName != "" {
		return nil
	}
	demand := admissible.DemandOf(policy.Limits{}, Pod(&corev1.Pod{Spec: *spec}, nil), cluster.Standing{}, nil)
	if requests := demand.Most().Requests; requests.CPU <= 0 && requests.Memory <= 0 {
		return nil
	}
	key := cluster.Key{Namespace: in.String(o.Namespace), Name: in.String(o.Name)}
	selector, known := NodeSelector(spec, in)
	return &cluster.Daemon{Key: key, Requests: demand.Most().Requests, Selector: selector, Somewhere: !known, Tolerations: tolerations(spec)}
}

// isRollingOut reports whether a DaemonSet has ready pods, and most of them may have an earlier template. Their requests are not known then:
// with the update strategy OnDelete, or if the new pods cannot start, the new template can have any requests for any time.
func isRollingOut(o *appsv1.DaemonSet) bool {
	ready := int64(o.Status.NumberReady)
	desired := int64(o.Status.DesiredNumberScheduled)
	earlier := desired - int64(o.Status.UpdatedNumberScheduled) // pods with an earlier template, which may be ready
	current := ready - earlier
	return ready > 0 && (o.Status.ObservedGeneration < o.Generation || earlier > 0 && current < desired-current)
}

// A GroupKind is a kind of controller in any version.
type GroupKind struct{ Group, Kind string }

// KindOf returns the kind of a workload.
func KindOf(w cluster.Workload) GroupKind { return GroupKind{w.Group, w.Kind} }

// ResourceOfWellKnown returns the resource of a built-in kind of controller.
func ResourceOfWellKnown(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: cluster.BuiltinKinds[kind], Version: "v1", Resource: strings.ToLower(kind) + "s"}
}

// IsWellKnown reports whether a kind is a built-in kind of controller. They are watched. Owners of other kinds are followed only if the kind
// has a scale subresource.
func (k GroupKind) IsWellKnown() bool {
	group, ok := cluster.BuiltinKinds[k.Kind]
	return ok && group == k.Group
}

// Workload returns the workload that an API version, kind and name refer to. A built-in kind without a group, or in its former
// group "extensions", gets its current group. A kind of the same name in another group is a different kind.
func Workload(apiVersion, kind, namespace, name string) cluster.Workload {
	group, _, versioned := strings.Cut(apiVersion, "/")
	if !versioned {
		group = ""
	}
	if group == "" || group == "extensions" {
		if modern, ok := cluster.BuiltinKinds[kind]; ok {
			group = modern
		}
	}
	return cluster.Workload{Group: group, Kind: kind, Namespace: namespace, Name: name}
}

// ControllerOf returns the controller among the owners of an object, or the zero workload. A node, which owns its static pods,
// is not a controller.
func ControllerOf(owners []metav1.OwnerReference, namespace string, in *Interner) cluster.Workload {
	o := cluster.Find(owners, func(o *metav1.OwnerReference) bool { return ptr.Deref(o.Controller, false) })
	if o == nil {
		return cluster.Workload{}
	}
	w := Workload(o.APIVersion, o.Kind, namespace, o.Name)
	if w.Group == "" && w.Kind == "Node" {
		return cluster.Workload{}
	}
	return cluster.Workload{Group: in.String(w.Group), Kind: in.String(w.Kind), Namespace: in.String(w.Namespace), Name: in.String(w.Name)}
}
