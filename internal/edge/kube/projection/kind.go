// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
)

// A GroupKind is a kind of controller in any version.
type GroupKind struct{ Group, Kind string }

// KindOf returns the kind of a workload.
func KindOf(w cluster.Workload) GroupKind { return GroupKind{w.Group, w.Kind} }

// wellKnown has the built-in kinds of controllers, with their current API group. They are watched. Owners of other kinds are
// followed only if the kind has a scale subresource.
var wellKnown = map[string]string{
	"DaemonSet":             "apps",
	"Deployment":            "apps",
	"ReplicaSet":            "apps",
	"StatefulSet":           "apps",
	"ReplicationController": "",
	"Job":                   "batch",
	"CronJob":               "batch",
}

// GroupOfWellKnown returns the API group of a built-in kind of controller.
func GroupOfWellKnown(kind string) string { return wellKnown[kind] }

// ResourceOfWellKnown returns the resource of a built-in kind of controller.
func ResourceOfWellKnown(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: wellKnown[kind], Version: "v1", Resource: strings.ToLower(kind) + "s"}
}

// IsWellKnown reports whether a kind is a built-in kind of controller.
func (k GroupKind) IsWellKnown() bool {
	group, ok := wellKnown[k.Kind]
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
		if modern, ok := wellKnown[kind]; ok {
			group = modern
		}
	}
	return cluster.Workload{Group: group, Kind: kind, Namespace: namespace, Name: name}
}

// ControllerOf returns the controller among the owners of an object, or the zero workload. A node, which owns its static pods,
// is not a controller.
func ControllerOf(owners []metav1.OwnerReference, namespace string, in *Interner) cluster.Workload {
	for i := range owners {
		o := &owners[i]
		if o.Controller == nil || !*o.Controller {
			continue
		}
		w := Workload(o.APIVersion, o.Kind, namespace, o.Name)
		if w.Group == "" && w.Kind == "Node" {
			return cluster.Workload{}
		}
		w.Group = in.String(w.Group)
		w.Kind = in.String(w.Kind)
		w.Namespace = in.String(w.Namespace)
		w.Name = in.String(w.Name)
		return w
	}
	return cluster.Workload{}
}
