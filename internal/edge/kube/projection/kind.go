// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// A groupKind names a kind of controller, whatever the version.
type GroupKind struct{ Group, Kind string }

func KindOf(w cluster.Workload) GroupKind { return GroupKind{w.Group, w.Kind} }

// wellKnown are the kinds of Kubernetes itself that own pods, each with the group that serves it today. They are
// watched; of all other kinds only those with a scale subresource are followed.
var wellKnown = map[string]string{
	"DaemonSet":             "apps",
	"Deployment":            "apps",
	"ReplicaSet":            "apps",
	"StatefulSet":           "apps",
	"ReplicationController": "",
	"Job":                   "batch",
	"CronJob":               "batch",
}

// groupOfWellKnown returns the API group of a well-known kind.
func GroupOfWellKnown(kind string) string { return wellKnown[kind] }

func (k GroupKind) IsWellKnown() bool {
	group, ok := wellKnown[k.Kind]
	return ok && group == k.Group
}

// workload returns the workload an API version, kind and name refer to. A well-known kind without a group, or in the
// group "extensions" in which it began, is the kind of that name in today's group; a kind of that name in a foreign
// group is a different kind.
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

// controllerOf returns the controller among the owners of an object, or the zero workload. A node that owns its static
// pods is not a controller in this sense.
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
		w.Group, w.Kind = in.String(w.Group), in.String(w.Kind)
		w.Namespace, w.Name = in.String(w.Namespace), in.String(w.Name)
		return w
	}
	return cluster.Workload{}
}
