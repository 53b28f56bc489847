// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Histories reads and writes UsageHistories. It keeps the names, versions and checksums of the objects. It is safe for several
// goroutines.
//
// The CRD may be missing, for example in a cluster with only upstream's CRDs, or podfit may have no right to use it. If Load fails for
// that reason, nothing is read, written or deleted until a later Load has read all objects: a Write would replace what is stored by the
// shorter history since the start. If the CRD is removed later, every Write returns ErrUnsupported until a list succeeds.
type Histories struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	namespace  string
	ignored    []string
	log        *slog.Logger

	mu             sync.Mutex
	known          map[cluster.Workload]historyAt
	unavailableErr error // why histories cannot be read and stored, according to the last list or write; nil if they can
	unread         bool  // the last Load has not read the stored histories, for the reason in unavailableErr
	logged         bool  // unavailableErr has been logged
}

// A historyAt is the name, the version and a checksum of a stored history.
type historyAt struct {
	name, version string
	sum           uint64
}

// NewHistories returns a client of the histories that the options select.
func NewHistories(c *kube.Clients, o StorageOptions) (*Histories, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	client, parameters, err := c.Own()
	if err != nil {
		return nil, fmt.Errorf("make client of usage histories: %w", err)
	}
	return &Histories{
		client: client, parameters: parameters, namespace: o.Namespace, ignored: o.Ignored, log: o.Log,
		known: make(map[cluster.Workload]historyAt),
	}, nil
}

// Load lists all histories and returns them by workload. Parts that cannot be decoded are logged and skipped. If the CRD or a right is
// missing, it returns none, and no error, and Unread returns the reason.
func (h *Histories) Load(ctx context.Context) (map[cluster.Workload][]usage.History, error) {
	all := make(map[cluster.Workload][]usage.History)
	var strays []historyObject // objects without the usual name; those with the usual name have priority
	taken := make(map[cluster.Workload]bool)
	take := func(o *historyObject, w cluster.Workload) {
		taken[w] = true
		hs, err := h.learn(o, w)
		if err != nil {
			h.log.Warn("Skipped parts of a UsageHistory that cannot be decoded; the object is kept until its workload is stored again", slog.Any("error", err))
		}
		if len(hs) > 0 {
			all[w] = hs
		}
	}
	err := h.list(ctx, func(o *historyObject, w cluster.Workload) {
		if o.Metadata.Name != historyName(w) {
			strays = append(strays, *o)
			return
		}
		take(o, w)
	})
	for i := range strays {
		if w, err := strays[i].workload(); err == nil && !taken[w] {
			take(&strays[i], w)
		}
	}
	switch {
	case errors.Is(err, errUnavailable):
		h.setUnread(true)
		return nil, nil
	case err == nil:
		h.setUnread(false)
	}
	return all, err
}

// errUnavailable is the error of a list if the CRD or a right is missing.
var errUnavailable = errors.New("the CRD of UsageHistories, or a right on them, is missing")

// setUnread records whether the stored histories were not read. A missing right is logged at once, because histories may be stored; a missing
// CRD is logged when there is a history to store.
func (h *Histories) setUnread(unread bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = unread
	if unread && errors.Is(h.unavailableErr, kube.ErrForbidden) {
		h.logUnavailable()
	}
	if !unread {
		h.recovered()
	}
}

// Unread returns why the last Load has not read the stored histories: ErrUnsupported or ErrForbidden. It is nil if they were read.
func (h *Histories) Unread() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.unread {
		return nil
	}
	return h.unavailableErr
}

// Write stores the histories of a workload if they differ from the stored ones, and returns whether it did. Newer histories that
// another client has stored are kept; if all are newer, the error is ErrConflict.
func (h *Histories) Write(ctx context.Context, w cluster.Workload, hs []usage.History) (bool, error) {
	hs, left := mostRecent(hs)
	if left > 0 {
		h.log.Debug("Workload has more containers than one UsageHistory holds; those with the oldest samples are not stored",
			slog.String("workload", w.String()), slog.Int("containers", len(hs)+left), slog.Int("histories", len(hs)))
	}
	if at, ok := h.at(w); len(hs) == 0 || ok && at.sum == historySum(hs) {
		return false, nil
	}
	err := h.unavailable()
	if err == nil {
		err = h.refused(ctx, h.write(ctx, w, hs))
	}
	if err == nil {
		return true, nil
	}
	if errors.Is(err, kube.ErrUnsupported) { // but not ErrForbidden: an admission plugin may forbid a single write
		h.missing(err)
		_ = h.unavailable() // logs the remedy
	}
	return false, fmt.Errorf("write usage history of %s: %w", w, err)
}

// unavailable returns why histories cannot be stored, or nil if they can. The first call logs it.
func (h *Histories) unavailable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unavailableErr != nil {
		h.logUnavailable()
	}
	return h.unavailableErr
}

// logUnavailable logs once why histories cannot be read and stored, with the remedy. The caller holds the mutex.
func (h *Histories) logUnavailable() {
	if h.logged {
		return
	}
	h.logged = true
	remedy := "install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"
	if errors.Is(h.unavailableErr, kube.ErrForbidden) {
		remedy = "grant the recommender create, delete, get, list and patch on usagehistories.podfit.dev, as deploy/10-rbac.yaml does"
	}
	h.log.Warn("UsageHistories cannot be read or stored; stored ones are not changed, and the model state of profiles is stored in checkpoints instead",
		slog.String("namespace", cmp.Or(h.namespace, "all")), slog.String("remedy", remedy), slog.Any("error", h.unavailableErr))
}

// missing records that histories cannot be read and stored.
func (h *Histories) missing(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unavailableErr = err
	clear(h.known)
}

func (h *Histories) write(ctx context.Context, w cluster.Workload, hs []usage.History) error {
	if at, ok := h.at(w); ok {
		err := h.patch(ctx, w, at, hs)
		switch {
		case apierrors.IsNotFound(err) && !kube.IsNoHandler(err):
			h.forget(w)
		case apierrors.IsConflict(err):
			return h.settle(ctx, w, at.name, hs)
		default:
			return err
		}
	}
	for _, name := range [...]string{historyName(w), hashedHistoryName(w)} {
		err := h.create(ctx, w, name, hs)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := h.settle(ctx, w, name, hs); !errors.Is(err, errForeign) {
			return err
		}
	}
	return errors.New("both names are in use by histories of other workloads")
}

var errForeign = errors.New("the history is of another workload")

// settle stores histories in an object that another client has changed. Newer histories of the object are kept.
func (h *Histories) settle(ctx context.Context, w cluster.Workload, name string, hs []usage.History) error {
	raw, err := kube.Body(h.client.Get().Namespace(w.Namespace).Resource(v1alpha1.ResourceUsageHistories).Name(name).Do(ctx))
	if err != nil {
		return err
	}
	var o historyObject
	if err := o.decode(raw, historyTooLarge); err != nil {
		return fmt.Errorf("decode usage history %s: %w", name, err)
	}
	if err := checkAnswer(&o.Metadata); err != nil {
		return fmt.Errorf("decode usage history %s: %w", name, err)
	}
	if owner, err := o.workload(); err != nil || owner != w {
		return errForeign
	}
	theirs, _ := h.learn(&o, w) // parts that cannot be decoded are overwritten
	at, _ := h.at(w)
	ours := 0
	merged := slices.Clone(hs)
	for i := range merged {
		j := slices.IndexFunc(theirs, func(t usage.History) bool { return t.Container == merged[i].Container })
		if j >= 0 && theirs[j].Newer(&merged[i]) {
			merged[i] = theirs[j]
		} else {
			ours++
		}
	}
	if ours == 0 {
		return apierrors.NewConflict(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUsageHistories).GroupResource(), name,
			errors.New("the stored histories are newer"))
	}
	return h.patch(ctx, w, at, merged)
}

func (h *Histories) create(ctx context.Context, w cluster.Workload, name string, hs []usage.History) error {
	o := &v1alpha1.UsageHistory{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindUsageHistory},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec:       v1alpha1.UsageHistorySpec{Target: v1alpha1.UsageHistoryTarget{Group: w.Group, Kind: w.Kind, Name: w.Name}},
		Status:     historyStatus(hs),
	}
	return h.answer(w)(kube.Body(h.client.Post().Namespace(w.Namespace).Resource(v1alpha1.ResourceUsageHistories).Body(o).Do(ctx)))
}

// patch replaces the status of a history, if it still has the known version.
func (h *Histories) patch(ctx context.Context, w cluster.Workload, at historyAt, hs []usage.History) error {
	data, err := json.Marshal([]kube.PatchOp{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: at.version},
		{Op: "add", Path: "/status", Value: historyStatus(hs)},
	})
	if err != nil {
		return err
	}
	return h.answer(w)(kube.Body(h.client.Patch(types.JSONPatchType).Namespace(w.Namespace).
		Resource(v1alpha1.ResourceUsageHistories).Name(at.name).Body(data).Do(ctx)))
}

// answer returns a function that records the response to a write.
func (h *Histories) answer(w cluster.Workload) func([]byte, error) error {
	return func(raw []byte, err error) error {
		if err != nil {
			return err
		}
		var o historyObject
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("decode response: %w", err)
		}
		if err := checkAnswer(&o.Metadata); err != nil {
			return err
		}
		_, err = h.learn(&o, w)
		return err
	}
}

// Needed selects histories that are kept.
type Needed struct {
	Workloads  map[cluster.Workload]bool
	Namespaces map[string]bool // all histories of these namespaces are kept
}

// Has reports whether the histories of a workload are kept.
func (n Needed) Has(w cluster.Workload) bool { return n.Workloads[w] || n.Namespaces[w.Namespace] }

// Collect deletes the histories that are not needed, and returns their number. A history that was written after it was listed is not
// deleted. Nothing is deleted while the stored histories are unread, because what is needed follows from them.
func (h *Histories) Collect(ctx context.Context, needed Needed) (int, error) {
	if h.Unread() != nil {
		return 0, nil
	}
	var orphans []historyObject
	listed := make(map[cluster.Workload]bool)
	err := h.list(ctx, func(o *historyObject, w cluster.Workload) {
		o.Status = nil
		listed[w] = true
		at, ok := h.at(w)
		stray := ok && at.name != o.Metadata.Name && o.Metadata.Name != historyName(w)
		if stray || !needed.Has(w) {
			orphans = append(orphans, *o)
		}
	})
	switch {
	case errors.Is(err, errUnavailable):
		return 0, nil
	case err == nil:
		h.available()
		h.retain(listed)
	}
	errs := kube.FewErrors{All: []error{err}}
	deleted := 0
	for i := range orphans {
		o := &orphans[i]
		err := h.delete(ctx, o)
		switch {
		case err == nil:
			deleted++
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			errs.Add(fmt.Errorf("delete usage history %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, kube.Refused(err)))
			if ctx.Err() != nil {
				return deleted, errs.Join()
			}
		}
	}
	return deleted, errs.Join()
}

func (h *Histories) delete(ctx context.Context, o *historyObject) error {
	err := deleteUnchanged(ctx, h.client, v1alpha1.ResourceUsageHistories, &o.Metadata)
	if err == nil || apierrors.IsNotFound(err) {
		if w, err := o.workload(); err == nil {
			if at, ok := h.at(w); ok && at.name == o.Metadata.Name {
				h.forget(w)
			}
		}
	}
	return err
}

// list calls each for every history of the selected namespaces, page by page. A history without a valid target is logged and skipped. The
// error is errUnavailable if the CRD or a right is missing, which is recorded.
func (h *Histories) list(ctx context.Context, each func(*historyObject, cluster.Workload)) error {
	o := metav1.ListOptions{Limit: storedPageSize}
	for {
		raw, err := readPage(ctx, h.client.Get().Namespace(h.namespace).Resource(v1alpha1.ResourceUsageHistories).
			VersionedParams(&o, h.parameters))
		if err != nil {
			if err = h.refused(ctx, err); errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden) {
				h.missing(err)
				return errUnavailable
			}
			return fmt.Errorf("list usage histories: %w", err)
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("decode list of usage histories: %w", err)
		}
		for i := range page.Items {
			item := new(historyObject)
			if err := item.decode(page.Items[i], historyTooLarge); err != nil {
				h.log.Warn("Skipped a UsageHistory that cannot be decoded", slog.Any("error", err))
				continue
			}
			if slices.Contains(h.ignored, item.Metadata.Namespace) {
				continue
			}
			w, err := item.workload()
			if err != nil {
				h.log.Warn("Skipped a UsageHistory without a valid target", slog.Any("error", err))
				continue
			}
			each(item, w)
		}
		o.Continue = page.Metadata.Continue
		if o.Continue == "" {
			return nil
		}
	}
}

// refused is kube.Refused. ErrUnsupported and ErrForbidden are certainly of the API server, because the recommender runs without the stored
// histories then, and replaces them by shorter ones later.
func (h *Histories) refused(ctx context.Context, err error) error {
	return kube.RefusedFor(ctx, h.client, v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUsageHistories), err)
}

// available records that histories can be read.
func (h *Histories) available() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered()
}

// recovered records that histories can be read and stored. The caller holds the mutex.
func (h *Histories) recovered() {
	if h.logged {
		h.log.Info("UsageHistories can be stored again")
	}
	h.unavailableErr = nil
	h.logged = false
}

// learn records the stored histories of a workload and returns them.
func (h *Histories) learn(o *historyObject, w cluster.Workload) ([]usage.History, error) {
	hs, err := o.histories()
	at := historyAt{name: o.Metadata.Name, version: o.Metadata.ResourceVersion, sum: historySum(hs)}
	if err != nil {
		at.sum = 0 // differs from every checksum, so the next Write stores
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[w] = at
	return hs, err
}

func (h *Histories) at(w cluster.Workload) (historyAt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.known[w]
	return at, ok
}

// retain removes the records of histories that do not exist any more, so that they are written again.
func (h *Histories) retain(exist map[cluster.Workload]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.known, func(w cluster.Workload, _ historyAt) bool { return !exist[w] })
}

func (h *Histories) forget(w cluster.Workload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, w)
}
