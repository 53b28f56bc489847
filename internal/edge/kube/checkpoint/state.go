// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
)

// stateTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. The metadata is part of it.
const stateTooLarge = v1alpha1.MaxUpdateStateSize + 160<<10

func updateStateSpec(w cluster.Workload) v1alpha1.UpdateStateSpec {
	return v1alpha1.UpdateStateSpec{Target: reference(w)}
}

func reference(w cluster.Workload) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{Group: w.Group, Kind: w.Kind, Name: w.Name}
}

// updateStateStatus returns the status of an object, without the time and the writer. It leaves out records until the object is within
// its limits.
func updateStateStatus(s *ledger.State) v1alpha1.UpdateStateStatus {
	state := *s
	state.Acting = state.Acting[max(0, len(state.Acting)-v1alpha1.MaxActingGroups):]
	state.Changes = state.Changes[max(0, len(state.Changes)-v1alpha1.MaxRequestChanges):]
	var out v1alpha1.UpdateStateStatus
	m := mapping{storing: true}
	m.status(&out, &state)
	spec := updateStateSpec(s.Workload)
	for isTooLarge(&spec, &out) {
		dropRecord(&out)
	}
	return out
}

// writeOverhead is the maximum size of the time and the writer in a status, in bytes of JSON.
const writeOverhead = 512

func isTooLarge(spec *v1alpha1.UpdateStateSpec, s *v1alpha1.UpdateStateStatus) bool {
	if len(s.Pods)+len(s.MissingReplacements)+len(s.RoomShortages) == 0 && s.Evictions == nil {
		return false
	}
	raw, err := json.Marshal(struct {
		Spec   *v1alpha1.UpdateStateSpec   `json:"spec"`
		Status *v1alpha1.UpdateStateStatus `json:"status"`
	}{spec, s})
	return err != nil || len(raw) > v1alpha1.MaxUpdateStateSize-writeOverhead
}

// dropRecord leaves out the least important record: the pod with the oldest attempt, then what is rarely needed.
func dropRecord(s *v1alpha1.UpdateStateStatus) {
	switch {
	case len(s.Pods) > 0:
		s.Pods = s.Pods[:len(s.Pods)-1]
		s.OmittedPods++
	case s.Evictions != nil && s.Evictions.Before != nil:
		s.Evictions.Before = nil
	case len(s.RoomShortages) > 0:
		s.RoomShortages = s.RoomShortages[:len(s.RoomShortages)-1]
	case len(s.MissingReplacements) > 0:
		s.MissingReplacements = s.MissingReplacements[:len(s.MissingReplacements)-1]
	default:
		s.Evictions = nil
	}
}

type updateStateObject struct{ storedObject[json.RawMessage] }

func (o *updateStateObject) version() stateAt { return stateAt{storedAt: o.at(), uid: o.Metadata.UID} }

// name returns the namespace and name of the object, for messages.
func (o *updateStateObject) name() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

func (o *updateStateObject) key() (cluster.Workload, error) {
	var s v1alpha1.UpdateStateSpec
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return cluster.Workload{}, fmt.Errorf("decode spec: %w", err)
	}
	w := workloadIn(o.Metadata.Namespace, &s.Target)
	if w.Kind == "" || w.Name == "" {
		return cluster.Workload{}, errors.New("spec.target has no kind or no name")
	}
	return w, nil
}

func workloadIn(namespace string, r *v1alpha1.WorkloadReference) cluster.Workload {
	return cluster.Workload{Group: r.Group, Kind: r.Kind, Namespace: namespace, Name: r.Name}
}

// state returns the stored state of a workload, without the parts that cannot be decoded, and the errors of these parts.
func (o *updateStateObject) state(w cluster.Workload) (ledger.State, error) {
	out := ledger.State{Workload: w}
	if o.size > 0 {
		return out, fmt.Errorf("the object has %d bytes, and at most %d are read", o.size, stateTooLarge)
	}
	if len(o.Status) == 0 {
		return out, nil
	}
	m := mapping{namespace: o.Metadata.Namespace}
	if err := json.Unmarshal(o.Status, &m.parts); err != nil {
		return out, fmt.Errorf("decode status: %w", err)
	}
	m.status(new(v1alpha1.UpdateStateStatus), &out)
	return out, errors.Join(m.errs[:min(len(m.errs), maxPartErrors)]...)
}

// maxPartErrors bounds the errors of one object in a log message.
const maxPartErrors = 3

// updateStateSum returns a checksum of a status, without the time and the writer.
func updateStateSum(s v1alpha1.UpdateStateStatus) uint64 {
	s.Updated = nil
	s.Writer = ""
	raw, err := json.Marshal(s)
	if err != nil {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(raw)
	return sum.Sum64()
}
