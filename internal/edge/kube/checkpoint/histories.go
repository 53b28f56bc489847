// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	collection[cluster.Workload, *historyObject]

	accessMu       sync.Mutex
	unavailableErr error // why histories cannot be read and stored, according to the last list or write; nil if they can
	unread         bool  // the last Load has not read the stored histories, for the reason in unavailableErr
	logged         bool  // unavailableErr has been logged
}

// NewHistories returns a client of the histories that the options select.
func NewHistories(c *kube.Clients, o StorageOptions) *Histories {
	o = o.withLog()
	return &Histories{collection: collection[cluster.Workload, *historyObject]{
		options: o, client: c.Own, resource: v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceUsageHistories),
		singular: "usage history", plural: "usage histories", others: "histories of other workloads", most: historyTooLarge,
		empty: func() *historyObject { return new(historyObject) }, name: historyName, otherName: hashedHistoryName,
		skip: func(_ *historyObject, decoded bool, err error) {
			if decoded {
				o.Log.Warn("Skipped a UsageHistory without a valid target", slog.Any("error", err))
				return
			}
			o.Log.Warn("Skipped a UsageHistory that cannot be decoded", slog.Any("error", err))
		},
	}}
}

// Load lists all histories and returns them by workload. Parts that cannot be decoded are logged and skipped. If the CRD or a right is
// missing, it returns none, and no error, and Unread returns the reason.
func (h *Histories) Load(ctx context.Context) (map[cluster.Workload][]usage.History, error) {
	all := make(map[cluster.Workload][]usage.History)
	err := h.load(ctx, func(o *historyObject, w cluster.Workload) {
		hs, err := h.learnHistories(o, w)
		if err != nil {
			h.options.Log.Warn("Skipped parts of a UsageHistory that cannot be decoded; the object is kept until its workload is stored again", slog.Any("error", err))
		}
		if len(hs) > 0 {
			all[w] = hs
		}
	}, func(*historyObject) {})
	if h.listed(err, true) {
		return nil, nil
	}
	return all, err
}

// listed records the result of a list, of Load or another one, and reports whether it failed because the CRD or a right is missing. If Load cannot read
// the stored histories, a missing right is logged at once, because histories may be stored; a missing CRD is logged when there is a history to store.
func (h *Histories) listed(err error, isLoad bool) (missing bool) {
	h.accessMu.Lock()
	defer h.accessMu.Unlock()
	missing = errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden)
	switch {
	case missing:
		h.missing(errors.Unwrap(err)) // without the name of the request
		h.unread = h.unread || isLoad
		if isLoad && errors.Is(err, kube.ErrForbidden) {
			h.logUnavailable()
		}
	case err == nil: // histories can be stored
		if h.logged {
			h.options.Log.Info("UsageHistories can be stored again")
		}
		h.unavailableErr = nil
		h.unread = false
		h.logged = false
	}
	return missing
}

// Unread returns why the last Load has not read the stored histories: ErrUnsupported or ErrForbidden. It is nil if they were read.
func (h *Histories) Unread() error {
	h.accessMu.Lock()
	defer h.accessMu.Unlock()
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
		h.options.Log.Debug("Workload has more containers than one UsageHistory holds; those with the oldest samples are not stored",
			slog.String("workload", w.String()), slog.Int("containers", len(hs)+left), slog.Int("histories", len(hs)))
	}
	if at, ok := h.at(w); len(hs) == 0 || ok && at.sum == historySum(hs) {
		return false, nil
	}
	err := h.unavailable()
	if err == nil {
		err = h.refused(ctx, h.store(ctx, w, historyWriter{h, w, hs}))
	}
	if err == nil {
		return true, nil
	}
	if errors.Is(err, kube.ErrUnsupported) { // but not ErrForbidden: an admission plugin may forbid a single write
		h.accessMu.Lock()
		defer h.accessMu.Unlock()
		h.missing(err)
		h.logUnavailable()
	}
	return false, fmt.Errorf("write usage history of %s: %w", w, err)
}

// unavailable returns why histories cannot be stored, or nil if they can. The first call logs it.
func (h *Histories) unavailable() error {
	h.accessMu.Lock()
	defer h.accessMu.Unlock()
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
	h.options.Log.Warn("UsageHistories cannot be read or stored; stored ones are not changed, and the model state of profiles is stored in checkpoints instead",
		slog.String("namespace", cmp.Or(h.options.Namespace, "all")), slog.String("remedy", remedy), slog.Any("error", h.unavailableErr))
}

// missing records that histories cannot be read and stored. The caller holds the mutex.
func (h *Histories) missing(err error) {
	h.unavailableErr = err
	h.forgetAll()
}

// A historyWriter stores the histories of a workload.
type historyWriter struct {
	*Histories
	workload cluster.Workload
	content  []usage.History
}

// overwrite keeps newer histories of the object.
func (w historyWriter) overwrite(ctx context.Context, name string, _ error) error {
	o, err := w.read(ctx, w.workload, w.workload.Namespace, name)
	if err != nil {
		return err
	}
	theirs, _ := w.learnHistories(o, w.workload) // parts that cannot be decoded are overwritten
	at, _ := w.at(w.workload)
	ours := 0
	merged := slices.Clone(w.content)
	for i := range merged {
		j := slices.IndexFunc(theirs, func(t usage.History) bool { return t.Container == merged[i].Container })
		if j >= 0 && theirs[j].Newer(&merged[i]) {
			merged[i] = theirs[j]
		} else {
			ours++
		}
	}
	if ours == 0 {
		return apierrors.NewConflict(w.resource.GroupResource(), name, errors.New("the stored histories are newer"))
	}
	return historyWriter{w.Histories, w.workload, merged}.replace(ctx, at)
}

func (w historyWriter) create(ctx context.Context, name string) error {
	return w.written(w.post(ctx, w.workload.Namespace, &v1alpha1.UsageHistory{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindUsageHistory},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.workload.Namespace, Name: name},
		Spec:       v1alpha1.UsageHistorySpec{Target: reference(w.workload)},
		Status:     historyStatus(w.content),
	}))
}

func (w historyWriter) replace(ctx context.Context, at storedAt) error {
	return w.written(w.patch(ctx, w.workload.Namespace, at, historyStatus(w.content)))
}

func (w historyWriter) written(o *historyObject, err error) error {
	if err == nil {
		_, err = w.learnHistories(o, w.workload)
	}
	return err
}

// Needed selects histories that are kept.
type Needed struct {
	Workloads  map[cluster.Workload]bool
	Grouped    map[cluster.Workload]bool // the histories of groups of these workloads are kept
	Namespaces map[string]bool           // all histories of these namespaces are kept
}

// Has reports whether the histories of a workload are kept.
func (n Needed) Has(w cluster.Workload) bool {
	of, isGroup := w.Ungrouped()
	return n.Workloads[w] || isGroup && n.Grouped[of] || n.Namespaces[w.Namespace]
}

// Collect deletes the histories that are not needed, and returns their number. A history that was written after it was listed is not
// deleted. Nothing is deleted while the stored histories are unread, because what is needed follows from them.
func (h *Histories) Collect(ctx context.Context, needed Needed) (int, error) {
	if h.Unread() != nil {
		return 0, nil
	}
	orphans, err := h.orphans(ctx, func(w cluster.Workload) bool { return !needed.Has(w) })
	if h.listed(err, false) {
		return 0, nil
	}
	return h.collect(ctx, orphans, err)
}

// learnHistories records the stored histories of a workload and returns them.
func (h *Histories) learnHistories(o *historyObject, w cluster.Workload) ([]usage.History, error) {
	hs, err := o.histories()
	at := o.at()
	if err == nil {
		at.sum = historySum(hs) // otherwise the next Write stores
	}
	h.learn(w, at)
	return hs, err
}
