// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

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

// A Surge is the record of a surge on a Deployment: one replica more is created, and then one pod is removed.
type Surge struct {
	Replicas int32     // spec.replicas before the surge; during the surge it is one more
	Pod      string    // name of the pod to remove
	UID      string    // of the pod
	Cost     int32     // deletion cost of the pod before the surge
	Deadline time.Time // when the surge is taken back
	Lowered  bool      // spec.replicas is set back, and the ReplicaSet removes the pod
}

// LowestDeletionCost is the value of the annotation controller.kubernetes.io/pod-deletion-cost with which a ReplicaSet removes a ready
// pod first.
const LowestDeletionCost = -1 << 31
