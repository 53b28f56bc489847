// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// States reads and writes UpdateStates. It keeps the names, versions and checksums of the objects, not their content. It is safe for
// several goroutines.
//
// Only the updater that leads writes: its requests run under a kube.Fence. A write with an outdated resource version is repeated once
// with the current one.
type States struct {
	collection[cluster.Workload, *updateStateObject, stateAt]
	writer   string
	throttle kube.Throttle // of the writes
}

// A stateAt is what is known about a stored state.
type stateAt struct {
	storedAt // the version is "" if the object may not exist: the answer to its creation was lost
	uid      types.UID
	sum      uint64 // a checksum; 0 differs from every checksum
}

// NewStates returns a client of the states that the options select. writer names this updater in the objects it writes.
func NewStates(c *kube.Clients, o StorageOptions, writer string) *States {
	o = o.withLog()
	return &States{writer: writer[:min(len(writer), longestName)], collection: collection[cluster.Workload, *updateStateObject, stateAt]{
		options: o, client: c.States, resource: v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUpdateStates),
		singular: "update state", plural: "update states", most: stateTooLarge,
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
	var sum uint64
	if err != nil {
		s.options.Log.Warn("Ignored parts of an UpdateState that cannot be decoded; the updater overwrites or deletes the object in the next minutes",
			slog.String("object", o.name()), slog.Any("error", err))
	} else {
		var status v1alpha1.UpdateStateStatus
		if json.Unmarshal(o.Status, &status) == nil {
			sum = updateStateSum(status)
		}
	}
	s.learn(w, o.at(sum))
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
	status := updateStateStatus(state)
	sum := updateStateSum(status)
	if at, ok := s.at(state.Workload); ok && at.sum == sum {
		return false, nil
	}
	status.Updated = new(metav1.NewTime(now))
	status.Writer = s.writer
	ctx, sending := s.throttle.Request(ctx)
	if err := sending.Ended(s.write(ctx, state.Workload, &status, sum)); err != nil {
		return false, fmt.Errorf("write update state of %s: %w", state.Workload, s.refused(ctx, err))
	}
	return true, nil
}

func (s *States) write(ctx context.Context, w cluster.Workload, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	if at, ok := s.at(w); ok {
		err := s.replace(ctx, w, at, status, sum)
		switch {
		case apierrors.IsNotFound(err) && !kube.IsNoHandler(err):
			s.forget(w)
		case apierrors.IsConflict(err):
			return s.overwrite(ctx, w, at.name, status, sum)
		case !errors.Is(err, errForeign):
			return err
		}
	}
	for _, name := range s.names(w) {
		err := s.create(ctx, w, name, status, sum)
		if !apierrors.IsAlreadyExists(err) {
			if isLost(err) {
				s.learn(w, stateAt{storedAt: storedAt{name: name}})
			}
			return err
		}
		if err := s.overwrite(ctx, w, name, status, sum); !errors.Is(err, errForeign) {
			return err
		}
	}
	return errors.New("both names are in use by states of other workloads")
}

// replace replaces the status of an object that is known, or whose creation had no answer.
func (s *States) replace(ctx context.Context, w cluster.Workload, at stateAt, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	if at.version == "" {
		return s.overwrite(ctx, w, at.name, status, sum)
	}
	err := s.update(ctx, w, at, status, sum)
	if isLost(err) { // the object may have the new status, so no status is known to be the stored one
		at.sum = 0
		s.learn(w, at)
	}
	return err
}

// isLost reports whether a request may have been carried out: it has no answer, or one that does not refuse it.
func isLost(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.Is(err, ErrPruned) && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

// overwrite stores a status in an object that another client has created or changed.
func (s *States) overwrite(ctx context.Context, w cluster.Workload, name string, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	at, err := s.refresh(ctx, w, name)
	if err != nil {
		return err
	}
	return s.update(ctx, w, at, status, sum)
}

// refresh reads the version of an object. The error is errForeign if the object is of another workload.
func (s *States) refresh(ctx context.Context, w cluster.Workload, name string) (stateAt, error) {
	o, err := s.read(ctx, w, w.Namespace, name)
	if err != nil {
		return stateAt{}, err
	}
	s.learn(w, o.at(0))
	return o.at(0), nil
}

func (s *States) create(ctx context.Context, w cluster.Workload, name string, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	return s.written(w, status, sum)(s.post(ctx, w.Namespace, &v1alpha1.UpdateState{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindUpdateState},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec:       updateStateSpec(w),
		Status:     *status,
	}))
}

// update replaces the status of an object, if it still has the known version.
func (s *States) update(ctx context.Context, w cluster.Workload, at stateAt, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	return s.written(w, status, sum)(s.patch(ctx, w.Namespace, at.storedAt, status))
}

// written returns a function that records the response to a write. Its error is ErrPruned if the CRD has no field for announcements.
func (s *States) written(w cluster.Workload, status *v1alpha1.UpdateStateStatus, sum uint64) func(*updateStateObject, error) error {
	return func(o *updateStateObject, err error) error {
		if err != nil {
			return err
		}
		if len(status.ActingOn) > 0 && !bytes.Contains(o.Status, []byte(`"actingOn"`)) {
			s.learn(w, o.at(0))
			return ErrPruned
		}
		s.learn(w, o.at(sum))
		return nil
	}
}

// ErrPruned is the error of a write of announcements that the API server has not stored, because the CRD is of an older version of podfit.
var ErrPruned = errors.New("the installed CRD UpdateState has no field status.actingOn")

// Delete deletes the object of a workload, if there is one. It does not delete an object that another client has changed; the next
// call does.
func (s *States) Delete(ctx context.Context, w cluster.Workload) error {
	at, ok := s.at(w)
	if !ok {
		return nil
	}
	if at.version == "" {
		read, err := s.refresh(ctx, w, at.name)
		if apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
			s.forget(w)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read update state of %s: %w", w, s.refused(ctx, err))
		}
		at = read
	}
	ctx, sending := s.throttle.Request(ctx)
	err := s.deleteUnchanged(ctx, &metav1.ObjectMeta{Namespace: w.Namespace, Name: at.name, UID: at.uid, ResourceVersion: at.version})
	if apierrors.IsConflict(err) {
		if _, err = s.refresh(ctx, w, at.name); err == nil {
			return nil // the next call deletes it
		}
	}
	if err == nil || apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
		s.forget(w)
		return nil
	}
	return fmt.Errorf("delete update state of %s: %w", w, s.refused(ctx, sending.Ended(err)))
}
