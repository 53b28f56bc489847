// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
)

// stateTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. The metadata is part of it.
const stateTooLarge = v1alpha1.MaxUpdateStateSize + 160<<10

func reference(w cluster.Workload) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{Group: w.Group, Kind: w.Kind, Name: w.Name}
}

// A storedState is the status of an object.
type storedState struct {
	Updated time.Time `stored:"updated,seconds"`
	Writer  string    `stored:"writer"`
	ledger.State
}

// bounded returns a state and its stored form, without records for which an object has no room.
func bounded(s *ledger.State) (ledger.State, []byte) {
	const writeOverhead = 512 // the maximum size of the time, the writer and the names of spec and status, in bytes of JSON
	out := *s
	raw := encode(&out)
	spec, _ := json.Marshal(v1alpha1.UpdateStateSpec{Target: reference(s.Workload)})
	for len(spec)+len(raw) > v1alpha1.MaxUpdateStateSize-writeOverhead && dropRecord(&out) {
		raw = encode(&out)
	}
	return out, raw
}

// dropRecord leaves out the least important record: the pod with the oldest attempt, then what is rarely needed. It reports whether there
// was one.
func dropRecord(s *ledger.State) bool {
	switch {
	case len(s.Pods) > 0:
		s.Pods = s.Pods[:len(s.Pods)-1]
		s.Omitted++
	case s.Eviction != nil && s.Eviction.Before != nil:
		eviction := *s.Eviction
		eviction.Before = nil
		s.Eviction = &eviction
	case len(s.Shortages) > 0:
		s.Shortages = s.Shortages[:len(s.Shortages)-1]
	case len(s.Replacements) > 0:
		s.Replacements = s.Replacements[:len(s.Replacements)-1]
	case s.Eviction != nil:
		s.Eviction = nil
	default:
		return false
	}
	return true
}

// checksum returns a checksum of the stored form of a state.
func checksum(raw []byte) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(raw)
	return sum.Sum64()
}

type updateStateObject struct{ targetObject }

func (o *updateStateObject) at() storedAt {
	at := o.targetObject.at()
	at.uid = o.Metadata.UID
	return at
}

// name returns the namespace and name of the object, for messages.
func (o *updateStateObject) name() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

// state returns the stored state of a workload, without the parts that cannot be decoded, and the errors of these parts.
func (o *updateStateObject) state(w cluster.Workload) (ledger.State, error) {
	out := ledger.State{Workload: w}
	if o.size > 0 {
		return out, fmt.Errorf("the object has %d bytes, and at most %d are read", o.size, stateTooLarge)
	}
	if len(o.Status) == 0 {
		return out, nil
	}
	errs := decoder{o.Metadata.Namespace}.state(o.Status, &out)
	const maxPartErrors = 3 // bounds the errors of one object in a log message
	return out, errors.Join(errs[:min(len(errs), maxPartErrors)]...)
}

// CanaryState returns the state of the canary in a status of a namespace. It is zero if there is none.
func CanaryState(status json.RawMessage, namespace string) (out rollout.State, err error) {
	var parts struct {
		Canary json.RawMessage `json:"canary"`
	}
	if err := json.Unmarshal(status, &parts); err != nil || isAbsent(parts.Canary) {
		return out, err
	}
	err = decoder{namespace}.record(reflect.ValueOf(&out).Elem(), parts.Canary, false)
	return out, err
}
