// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// States reads and writes UpdateStates. It keeps the names, versions and checksums of the objects, not their content. It is safe for
// several goroutines.
//
// Only the updater that leads writes: its requests run under a kube.Fence. A write with an outdated resource version is repeated once
// with the current one.
type States struct {
	collection[cluster.Workload, *updateStateObject]
	writer   string
	throttle kube.Throttle // of the writes
}

// NewStates returns a client of the states that the options select. writer names this updater in the objects it writes.
func NewStates(c *kube.Clients, o StorageOptions, writer string) *States {
	o = o.withLog()
	return &States{writer: writer[:min(len(writer), longestName)], collection: collection[cluster.Workload, *updateStateObject]{
		options: o, client: c.States, resource: v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUpdateStates),
		singular: "update state", plural: "update states", others: "states of other workloads", most: stateTooLarge,
		empty: func() *updateStateObject { return new(updateStateObject) }, name: historyName, otherName: hashedHistoryName,
		skip: func(item *updateStateObject, _ bool, err error) { // the updater never changes the object
			o.Log.Warn("Ignored an UpdateState", slog.String("object", item.name()), slog.Any("error", err),
				slog.String("remedy", fmt.Sprintf("kubectl -n %s delete updatestate %s", item.Metadata.Namespace, item.Metadata.Name)))
		},
	}}
}

// Load returns the states, one for each workload. Objects and parts that cannot be decoded are logged and skipped. The error is
// ErrUnsupported if the CRD is not installed, and ErrForbidden if podfit has no right to list the objects.
func (s *States) Load(ctx context.Context) ([]ledger.State, error) {
	var states []ledger.State
	s.forgetAll()
	err := s.load(ctx, func(o *updateStateObject, w cluster.Workload) {
		states = append(states, s.stateIn(o, w))
	}, func(o *updateStateObject) {
		s.skip(o, true, errors.New("another UpdateState has the same target"))
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

// stateIn returns the state in an object, and logs which parts are ignored. The object is overwritten or deleted by the next write.
func (s *States) stateIn(o *updateStateObject, w cluster.Workload) ledger.State {
	state, err := o.state(w)
	at := o.at()
	if err != nil {
		s.options.Log.Warn("Ignored parts of an UpdateState that cannot be decoded; the updater overwrites or deletes the object in the next minutes",
			slog.String("object", o.name()), slog.Any("error", err))
	} else {
		at.sum = checksum(encode(&state))
	}
	s.learn(w, at)
	return state
}

// Stored returns the workloads with an object, sorted.
func (s *States) Stored() []cluster.Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.known), cluster.Workload.Compare)
}

// Name returns the name of the object of a workload, whether it exists or not.
func (s *States) Name(w cluster.Workload) string {
	if at, ok := s.at(w); ok {
		return at.name
	}
	return historyName(w)
}

// Write stores a state if it differs from the stored one, and returns whether it did. now is the time of the write in the object.
func (s *States) Write(ctx context.Context, now time.Time, state *ledger.State) (bool, error) {
	stored, raw := bounded(state)
	sum := checksum(raw)
	if at, ok := s.at(state.Workload); ok && at.sum == sum {
		return false, nil
	}
	status := encode(&storedState{now, s.writer, stored})
	ctx, classify := s.throttle.Request(ctx)
	if err := classify(s.store(ctx, state.Workload, stateWriter{s, state.Workload, status, sum})); err != nil {
		return false, fmt.Errorf("write update state of %s: %w", state.Workload, s.refused(ctx, err))
	}
	return true, nil
}

// A stateWriter stores the status of the object of a workload.
type stateWriter struct {
	*States
	workload cluster.Workload
	status   json.RawMessage
	sum      uint64 // of the state
}

// replace replaces the status of an object that is known, or whose creation had no answer.
func (w stateWriter) replace(ctx context.Context, at storedAt) error {
	if at.version == "" {
		return w.overwrite(ctx, at.name, nil)
	}
	err := w.update(ctx, at)
	if isLost(err) { // the object may have the new status, so no status is known to be the stored one
		at.sum = 0
		w.learn(w.workload, at)
	}
	return err
}

// isLost reports whether a request may have been carried out: it has no answer, or one that does not refuse it.
func isLost(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

func (w stateWriter) overwrite(ctx context.Context, name string, _ error) error {
	at, err := w.refresh(ctx, w.workload, w.workload.Namespace, name)
	if err != nil {
		return err
	}
	return w.update(ctx, at)
}

func (w stateWriter) create(ctx context.Context, name string) error {
	object, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.KindUpdateState,
		"spec": v1alpha1.UpdateStateSpec{Target: reference(w.workload)}, "status": w.status,
		"metadata": map[string]string{"namespace": w.workload.Namespace, "name": name},
	})
	if err != nil {
		return err
	}
	err = w.written(w.post(ctx, w.workload.Namespace, object))
	if isLost(err) {
		w.learn(w.workload, storedAt{name: name})
	}
	return err
}

// update replaces the status of an object, if it still has the known version.
func (w stateWriter) update(ctx context.Context, at storedAt) error {
	return w.written(w.patch(ctx, w.workload.Namespace, at, w.status))
}

// written records the response to a write.
func (w stateWriter) written(o *updateStateObject, err error) error {
	if err != nil {
		return err
	}
	at := o.at()
	at.sum = w.sum
	w.learn(w.workload, at)
	return nil
}

// Delete deletes the object of a workload, if there is one. It does not delete an object that another client has changed; the next
// call does.
func (s *States) Delete(ctx context.Context, w cluster.Workload) error {
	at, ok := s.at(w)
	if !ok {
		return nil
	}
	if at.version == "" {
		read, err := s.refresh(ctx, w, w.Namespace, at.name)
		if apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
			s.forget(w)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read update state of %s: %w", w, s.refused(ctx, err))
		}
		at = read
	}
	ctx, classify := s.throttle.Request(ctx)
	err := s.deleteUnchanged(ctx, &metav1.ObjectMeta{Namespace: w.Namespace, Name: at.name, UID: at.uid, ResourceVersion: at.version})
	if apierrors.IsConflict(err) {
		if _, err = s.refresh(ctx, w, w.Namespace, at.name); err == nil {
			return nil // the next call deletes it
		}
	}
	if err == nil || apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
		s.forget(w)
		return nil
	}
	return fmt.Errorf("delete update state of %s: %w", w, s.refused(ctx, classify(err)))
}

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
