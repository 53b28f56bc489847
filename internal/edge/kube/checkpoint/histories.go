// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
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

// Histories reads and writes UsageHistories. Of those it has seen it remembers the name, the version and a sum of the
// content. It is safe for several goroutines.
//
// A cluster may lack the CRD, as one does that has upstream's alone, or we the right to use it. Then nothing is read, and
// every Write says ErrUnsupported or ErrForbidden, until Load or Collect finds that this has changed.
type Histories struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	namespace  string
	ignored    []string
	log        *slog.Logger

	mu    sync.Mutex
	known map[cluster.Workload]historyAt
	away  error // why there are none, as of the last list or write
	told  bool  // that has been logged
}

// historyAt is where and in which version a history is stored, and a sum of what it says.
type historyAt struct {
	name, version string
	sum           uint64
}

// NewHistories returns the histories of the namespaces that the options name.
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

// Load reads all histories and calls each once for each workload. What cannot be read is logged and left out.
func (h *Histories) Load(ctx context.Context, each func(cluster.Workload, []usage.History)) error {
	var strays []historyObject // under a name that is not the first choice; they give way to one that is
	taken := make(map[cluster.Workload]bool)
	take := func(o *historyObject, w cluster.Workload) {
		taken[w] = true
		hs, err := h.learn(o, w)
		if err != nil {
			h.log.Warn("A usage history cannot be read in whole; it stays as it is until there is something to store over it", "error", err)
		}
		if len(hs) > 0 {
			each(w, hs)
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
	return err
}

// Write stores what is remembered of a workload, if that is not what has been stored, and returns whether it did. What
// somebody else has stored since, and is newer, stays: when all of it is, that is ErrConflict.
func (h *Histories) Write(ctx context.Context, w cluster.Workload, hs []usage.History) (bool, error) {
	hs, left := mostRecent(hs)
	if left > 0 {
		h.log.Debug("Workload has more containers than one UsageHistory holds; those with the oldest samples are not stored",
			"workload", w.String(), "stored", len(hs), "left", left)
	}
	if at, ok := h.at(w); len(hs) == 0 || ok && at.sum == historySum(hs) {
		return false, nil
	}
	err := h.unavailable(w)
	if err == nil {
		err = h.write(ctx, w, hs)
	}
	if err = kube.Refused(err); err == nil {
		return true, nil
	}
	if errors.Is(err, kube.ErrUnsupported) { // a write may be forbidden for other reasons than the lack of rights
		h.missing(err)
		_ = h.unavailable(w) // say so
	}
	return false, fmt.Errorf("write usage history of %s: %w", w, err)
}

// unavailable returns why nothing can be stored. The first who asks is told in the log, with the remedy.
func (h *Histories) unavailable(w cluster.Workload) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil || h.told {
		return h.away
	}
	h.told = true
	remedy := "install the CRDs: podfit crds | kubectl apply -f -"
	if errors.Is(h.away, kube.ErrForbidden) {
		remedy = "let the recommender create, delete, get, list and patch usagehistories.podfit.dev, as deploy/10-rbac.yaml does"
	}
	h.log.Warn("UsageHistories cannot be stored; until they can, what sizing profiles remember is in an annotation of the checkpoints",
		"first needed for", w.String(), "remedy", remedy, "error", h.away)
	return h.away
}

// missing remembers that there are no histories to be had, and none stored.
func (h *Histories) missing(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = err
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
	return errors.New("both names are taken by histories of other workloads")
}

var errForeign = errors.New("it is of another workload")

// settle stores histories over an object that has been changed since it was seen, but for those that are newer there.
func (h *Histories) settle(ctx context.Context, w cluster.Workload, name string, hs []usage.History) error {
	raw, err := kube.Body(h.client.Get().Namespace(w.Namespace).Resource(v1alpha1.ResourceUsageHistories).Name(name).Do(ctx))
	if err != nil {
		return err
	}
	var o historyObject
	if err := decodeHistory(raw, &o); err != nil {
		return fmt.Errorf("decode usage history %s: %w", name, err)
	}
	if whose, err := o.workload(); err != nil || whose != w {
		return errForeign
	}
	theirs, _ := h.learn(&o, w) // what cannot be read is overwritten
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
			errors.New("what is stored is newer"))
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

// patch replaces what is remembered, in the version of the object that was last seen.
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

// answer remembers what the API server says is stored now.
func (h *Histories) answer(w cluster.Workload) func([]byte, error) error {
	return func(raw []byte, err error) error {
		if err != nil {
			return err
		}
		var o historyObject
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("decode answer: %w", err)
		}
		_, err = h.learn(&o, w)
		return err
	}
}

// Collect deletes the histories that keep does not want, and returns how many it deleted. One that has been written since
// it was listed stays.
func (h *Histories) Collect(ctx context.Context, keep func(cluster.Workload) bool) (int, error) {
	var orphans []historyObject
	listed := make(map[cluster.Workload]bool)
	err := h.list(ctx, func(o *historyObject, w cluster.Workload) {
		o.Status = nil
		listed[w] = true
		at, ok := h.at(w)
		stray := ok && at.name != o.Metadata.Name && o.Metadata.Name != historyName(w)
		if stray || !keep(w) {
			orphans = append(orphans, *o)
		}
	})
	if err == nil {
		h.retain(listed)
	}
	errs := kube.FewErrors{All: []error{err}}
	deleted := 0
	for i := range orphans {
		o := &orphans[i]
		switch err := h.delete(ctx, o); {
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
	uid, version := o.Metadata.UID, o.Metadata.ResourceVersion
	err := h.client.Delete().Namespace(o.Metadata.Namespace).Resource(v1alpha1.ResourceUsageHistories).Name(o.Metadata.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		}).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		if w, whose := o.workload(); whose == nil {
			if at, ok := h.at(w); ok && at.name == o.Metadata.Name {
				h.forget(w)
			}
		}
	}
	return err
}

// list calls each for every history of the namespaces in question, page by page, and finds out whether there are any to
// be had at all. One that does not say whose it is is nobody's: it is logged and left alone.
func (h *Histories) list(ctx context.Context, each func(*historyObject, cluster.Workload)) error {
	o := metav1.ListOptions{Limit: historyPageSize}
	for {
		raw, err := readPage(ctx, h.client.Get().Namespace(h.namespace).Resource(v1alpha1.ResourceUsageHistories).
			VersionedParams(&o, h.parameters))
		if err != nil {
			if err = kube.Refused(err); errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden) {
				h.missing(err)
				return nil
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
		h.available()
		for i := range page.Items {
			item := new(historyObject)
			if err := decodeHistory(page.Items[i], item); err != nil {
				h.log.Warn("A UsageHistory cannot be decoded; it is skipped", "error", err)
				continue
			}
			if slices.Contains(h.ignored, item.Metadata.Namespace) {
				continue
			}
			w, err := item.workload()
			if err != nil {
				h.log.Warn("A usage history is left alone", "error", err)
				continue
			}
			each(item, w)
		}
		if o.Continue = page.Metadata.Continue; o.Continue == "" {
			return nil
		}
	}
}

func (h *Histories) available() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		h.log.Info("UsageHistories can be stored now")
	}
	h.away, h.told = nil, false
}

// learn remembers what is stored of a workload and returns it.
func (h *Histories) learn(o *historyObject, w cluster.Workload) ([]usage.History, error) {
	hs, err := o.histories()
	at := historyAt{name: o.Metadata.Name, version: o.Metadata.ResourceVersion, sum: historySum(hs)}
	if err != nil {
		at.sum = 0 // not what anybody would store
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

// retain forgets all but those that exist: what somebody has deleted is written again.
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
