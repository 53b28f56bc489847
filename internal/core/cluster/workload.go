// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster defines podfit's values for a cluster: resources, workloads, pods, containers, autoscalers and nodes, and
// which autoscaler governs a workload.
//
// It does no input or output and does not read the clock. The edges convert objects of the cluster into these values.
package cluster

import (
	"cmp"
	"strings"
	"time"
)

// A Key identifies a namespaced object of a given kind.
type Key struct{ Namespace, Name string }

// String returns "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// A Workload identifies the topmost controller of pods. It is comparable, and usage history is keyed by it.
// The zero value means that the pod has no controller.
type Workload struct {
	Group     string `stored:"group"` // API group, "" for the core group; without the version, which can change
	Kind      string `stored:"kind,required"`
	Namespace string // in a stored object, that of the object
	Name      string `stored:"name,required"`
}

// IsZero reports whether w is the zero value.
func (w Workload) IsZero() bool { return w == Workload{} }

// String returns "namespace/Kind/name", with the group in front of the kind if it is not a group of Kubernetes.
func (w Workload) String() string {
	kind := w.Kind
	if w.Group != "" && strings.Contains(w.Group, ".") {
		kind = w.Kind + "." + w.Group
	}
	return w.Namespace + "/" + kind + "/" + w.Name
}

// Compare orders workloads by namespace, kind, name and group.
func (w Workload) Compare(o Workload) int {
	return cmp.Or(
		strings.Compare(w.Namespace, o.Namespace),
		strings.Compare(w.Kind, o.Kind),
		strings.Compare(w.Name, o.Name),
		strings.Compare(w.Group, o.Group),
	)
}

// Scale contains the number of replicas of a controller.
type Scale struct {
	Known      bool  // false if the number of replicas could not be read, or has not been read yet
	Gone       bool  // the controller does not exist
	Unscalable bool  // the kind of the controller has no scale subresource
	Replicas   int32 // desired replicas (for a DaemonSet: nodes that should run a pod)

	MinReady time.Duration // spec.minReadySeconds: how long a pod must be ready until it is available
}

// Wanted returns how many pods a controller should have, and false if that is 0 or unknown. The built-in controllers always have
// a number, so a group with an unknown controller or an unread scale is left alone. A Job, and a controller without a scale
// subresource, should have as many pods as exist, with terminating ones (W-14 in docs/migrate.md).
func (s Scale) Wanted(controller Workload, present int) (int, bool) {
	if s.Unscalable || controller.Group == "batch" && controller.Kind == "Job" {
		return present, true
	}
	return int(s.Replicas), s.Known && s.Replicas > 0
}

// A Deployment contains the fields of a Deployment that a surge needs. It is read just before it is written.
type Deployment struct {
	Workload
	UID       string
	Version   string        // metadata.resourceVersion
	Replicas  int32         // spec.replicas
	MinReady  time.Duration // spec.minReadySeconds
	Deleting  bool
	Owned     bool   // another controller owns it, and may write spec.replicas
	Exclusive bool   // its strategy allows no additional pod: Recreate, or maxSurge 0
	Observed  bool   // the status belongs to the current spec
	Pods      int32  // status.replicas: pods of all ReplicaSets
	Updated   int32  // status.updatedReplicas: pods of the newest ReplicaSet
	Annotated bool   // it has annotations
	Recorded  bool   // it has the annotation podfit.dev/surge
	Foreign   bool   // another client wrote that annotation
	Surge     *Surge // nil if it has no such annotation, or an invalid one
}

// A Surge is the record of a surge on a Deployment: one replica more is created, and then one pod is removed. Its JSON is stored, so the names do
// not change.
type Surge struct {
	Replicas int32     `json:"replicas"`               // spec.replicas before the surge; during the surge it is one more
	Pod      string    `json:"pod"`                    // name of the pod to remove
	UID      string    `json:"uid"`                    // of the pod
	Cost     int32     `json:"deletionCost,omitempty"` // deletion cost of the pod before the surge
	Deadline time.Time `json:"deadline"`               // when the surge is taken back
	Lowered  bool      `json:"lowered,omitempty"`      // spec.replicas is set back, and the ReplicaSet removes the pod
}

// BuiltinKinds are the kinds of controllers that are part of Kubernetes, with their API group.
var BuiltinKinds = map[string]string{
	"DaemonSet": "apps", "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps",
	"ReplicationController": "",
	"Job":                   "batch", "CronJob": "batch",
}

// LowestDeletionCost is the value of the annotation controller.kubernetes.io/pod-deletion-cost with which a ReplicaSet removes a ready
// pod first.
const LowestDeletionCost = -1 << 31

// A Service is a Kubernetes Service, as far as the search for a metrics server needs it.
type Service struct {
	Key
	Labels map[string]string
	Ports  []ServicePort
}

// A ServicePort is a port of a Service.
type ServicePort struct {
	Name   string // "" if the Service has one port
	Number int32
}
