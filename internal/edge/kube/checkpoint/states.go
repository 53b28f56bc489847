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
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

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
	client     rest.Interface
	parameters runtime.ParameterCodec
	namespace  string
	ignored    []string
	writer     string
	log        *slog.Logger
	throttle   kube.Throttle // of the writes

	mu    sync.Mutex
	known map[cluster.Workload]stateAt
}

// A stateAt is the name, the version and a checksum of a stored state.
type stateAt struct {
	name, version string // the version is "" if the object may not exist: the answer to its creation was lost
	uid           types.UID
	sum           uint64 // 0: differs from every checksum
}

// NewStates returns a client of the states that the options select. writer names this updater in the objects it writes. The client has
// its own rate limit, so that writes delay no action on a pod.
func NewStates(c *kube.Clients, o StorageOptions, writer string) (*States, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	own := *c
	own.Config = rest.CopyConfig(c.Config)
	if own.Config.QPS > 0 {
		own.Config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(own.Config.QPS, own.Config.Burst)
	}
	client, parameters, err := own.Own()
	if err != nil {
		return nil, fmt.Errorf("create the client for UpdateState objects: %w", err)
	}
	return &States{
		client: client, parameters: parameters, namespace: o.Namespace, ignored: o.Ignored, log: o.Log,
		writer: writer[:min(len(writer), longestName)], known: make(map[cluster.Workload]stateAt),
	}, nil
}

// Load returns the states, one for each workload. Objects and parts that cannot be decoded are logged and skipped. The error is
// ErrUnsupported if the CRD is not installed, and ErrForbidden if podfit has no right to list the objects.
func (s *States) Load(ctx context.Context) ([]ledger.State, error) {
	var states []ledger.State
	var strays []updateStateObject // objects without the usual name; those with the usual name have priority
	taken := make(map[cluster.Workload]bool)
	take := func(o *updateStateObject, w cluster.Workload) {
		taken[w] = true
		states = append(states, s.decode(o, w))
	}
	s.mu.Lock()
	clear(s.known)
	s.mu.Unlock()
	err := s.list(ctx, func(o *updateStateObject, w cluster.Workload) {
		if o.Metadata.Name != historyName(w) {
			strays = append(strays, *o)
			return
		}
		take(o, w)
	})
	for i := range strays {
		o := &strays[i]
		w, decodeErr := o.workload()
		if decodeErr == nil && !taken[w] {
			take(o, w)
			continue
		}
		s.skip(o, errors.Join(decodeErr, errors.New("another UpdateState has the same target")))
	}
	if err != nil {
		return nil, err
	}
	return states, nil
}

// decode returns the state in an object, and logs which parts are ignored. The object is overwritten or deleted by the next write.
func (s *States) decode(o *updateStateObject, w cluster.Workload) ledger.State {
	state, err := o.state(w)
	at := stateAt{name: o.Metadata.Name, version: o.Metadata.ResourceVersion, uid: o.Metadata.UID}
	if err != nil {
		s.log.Warn("Ignored parts of an UpdateState that cannot be decoded; the updater overwrites or deletes the object in the next minutes",
			slog.String("object", o.name()), slog.Any("error", err))
	} else {
		var status v1alpha1.UpdateStateStatus
		if json.Unmarshal(o.Status, &status) == nil {
			at.sum = updateStateSum(status)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[w] = at
	return state
}

// skip logs an object that is ignored and that the updater never changes.
func (s *States) skip(o *updateStateObject, err error) {
	s.log.Warn("Ignored an UpdateState", slog.String("object", o.name()), slog.Any("error", err),
		slog.String("remedy", fmt.Sprintf("kubectl -n %s delete updatestate %s", o.Metadata.Namespace, o.Metadata.Name)))
}

// list calls each for every object of the selected namespaces with a valid target, page by page.
func (s *States) list(ctx context.Context, each func(*updateStateObject, cluster.Workload)) error {
	options := metav1.ListOptions{Limit: storedPageSize}
	for {
		raw, err := readPage(ctx, s.client.Get().Namespace(s.namespace).Resource(v1alpha1.ResourceUpdateStates).
			VersionedParams(&options, s.parameters))
		if err != nil {
			return fmt.Errorf("list update states: %w", s.refused(ctx, err))
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("decode list of update states: %w", err)
		}
		for i := range page.Items {
			var o updateStateObject
			if err := o.decode(page.Items[i], stateTooLarge); err != nil {
				s.skip(&o, err)
				continue
			}
			if slices.Contains(s.ignored, o.Metadata.Namespace) {
				continue
			}
			w, err := o.workload()
			if err != nil {
				s.skip(&o, err)
				continue
			}
			each(&o, w)
		}
		if options.Continue = page.Metadata.Continue; options.Continue == "" {
			return nil
		}
	}
}

// refused is kube.Refused. ErrUnsupported and ErrForbidden are certainly of the API server, because the updater acts without records then.
func (s *States) refused(ctx context.Context, err error) error {
	return kube.RefusedFor(ctx, s.client, v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUpdateStates), err)
}

// Stored returns the workloads with an object, sorted.
func (s *States) Stored() []cluster.Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]cluster.Workload, 0, len(s.known))
	for w := range s.known {
		out = append(out, w)
	}
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
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
	updated := metav1.NewTime(now)
	status.Updated, status.Writer = &updated, s.writer
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
	for _, name := range [...]string{historyName(w), hashedHistoryName(w)} {
		err := s.create(ctx, w, name, status, sum)
		if !apierrors.IsAlreadyExists(err) {
			if isLost(err) {
				s.learn(&updateStateObject{storedObject{Metadata: metav1.ObjectMeta{Name: name}}}, w, 0)
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
	err := s.patch(ctx, w, at, status, sum)
	if isLost(err) { // the object may have the new status, so no status is known to be the stored one
		at.sum = 0
		s.mu.Lock()
		s.known[w] = at
		s.mu.Unlock()
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
	at, err := s.read(ctx, w, name)
	if err != nil {
		return err
	}
	return s.patch(ctx, w, at, status, sum)
}

// read reads the version of an object. The error is errForeign if the object is of another workload.
func (s *States) read(ctx context.Context, w cluster.Workload, name string) (stateAt, error) {
	raw, err := kube.Body(s.client.Get().Namespace(w.Namespace).Resource(v1alpha1.ResourceUpdateStates).Name(name).Do(ctx))
	if err != nil {
		return stateAt{}, err
	}
	var o updateStateObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return stateAt{}, fmt.Errorf("decode update state %s: %w", name, err)
	}
	if err := checkAnswer(&o.Metadata); err != nil {
		return stateAt{}, fmt.Errorf("decode update state %s: %w", name, err)
	}
	if owner, err := o.workload(); err != nil || owner != w {
		return stateAt{}, errForeign
	}
	return s.learn(&o, w, 0), nil
}

func (s *States) create(ctx context.Context, w cluster.Workload, name string, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	o := &v1alpha1.UpdateState{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindUpdateState},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec:       updateStateSpec(w),
		Status:     *status,
	}
	return s.answer(w, status, sum)(kube.Body(s.client.Post().Namespace(w.Namespace).Resource(v1alpha1.ResourceUpdateStates).Body(o).Do(ctx)))
}

// patch replaces the status of an object, if it still has the known version.
func (s *States) patch(ctx context.Context, w cluster.Workload, at stateAt, status *v1alpha1.UpdateStateStatus, sum uint64) error {
	data, err := json.Marshal([]kube.PatchOp{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: at.version},
		{Op: "add", Path: "/status", Value: status},
	})
	if err != nil {
		return err
	}
	return s.answer(w, status, sum)(kube.Body(s.client.Patch(types.JSONPatchType).Namespace(w.Namespace).
		Resource(v1alpha1.ResourceUpdateStates).Name(at.name).Body(data).Do(ctx)))
}

// answer returns a function that records the response to a write. Its error is ErrPruned if the CRD has no field for announcements.
func (s *States) answer(w cluster.Workload, status *v1alpha1.UpdateStateStatus, sum uint64) func([]byte, error) error {
	return func(raw []byte, err error) error {
		if err != nil {
			return err
		}
		var o updateStateObject
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("decode response: %w", err)
		}
		if err := checkAnswer(&o.Metadata); err != nil {
			return err
		}
		if len(status.ActingOn) > 0 && !bytes.Contains(o.Status, []byte(`"actingOn"`)) {
			s.learn(&o, w, 0)
			return ErrPruned
		}
		s.learn(&o, w, sum)
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
		read, err := s.read(ctx, w, at.name)
		if apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
			s.forget(w)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read update state of %s: %w", w, s.refused(ctx, err))
		}
		at = read
	}
	preconditions := metav1.Preconditions{ResourceVersion: &at.version}
	if at.uid != "" {
		preconditions.UID = &at.uid
	}
	ctx, sending := s.throttle.Request(ctx)
	err := s.client.Delete().Namespace(w.Namespace).Resource(v1alpha1.ResourceUpdateStates).Name(at.name).
		Body(&metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &preconditions,
		}).Do(ctx).Error()
	if apierrors.IsConflict(err) {
		if _, err = s.read(ctx, w, at.name); err == nil {
			return nil // the next call deletes it
		}
	}
	if err == nil || apierrors.IsNotFound(err) && !kube.IsNoHandler(err) || errors.Is(err, errForeign) {
		s.forget(w)
		return nil
	}
	return fmt.Errorf("delete update state of %s: %w", w, s.refused(ctx, sending.Ended(err)))
}

// learn records the version of an object with a checksum of its content.
func (s *States) learn(o *updateStateObject, w cluster.Workload, sum uint64) stateAt {
	at := stateAt{name: o.Metadata.Name, version: o.Metadata.ResourceVersion, uid: o.Metadata.UID, sum: sum}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[w] = at
	return at
}

func (s *States) at(w cluster.Workload) (stateAt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.known[w]
	return at, ok
}

func (s *States) forget(w cluster.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, w)
}
