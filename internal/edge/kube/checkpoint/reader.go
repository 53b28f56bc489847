// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// A Reader reads the stored state of single workloads. It keeps nothing and writes nothing.
type Reader struct {
	checkpoints *Checkpoints
	histories   *Histories
	states      *States
}

// NewReader returns a reader.
func NewReader(c *kube.Clients) *Reader {
	checkpoints := NewCheckpoints(c, StorageOptions{})
	checkpoints.most = math.MaxInt
	return &Reader{checkpoints, NewHistories(c, StorageOptions{}), NewStates(c, StorageOptions{}, "")}
}

// Histories returns the stored histories of a workload. There are none if no UsageHistory of the workload exists.
func (r *Reader) Histories(ctx context.Context, w cluster.Workload) ([]usage.History, error) {
	o, found, err := r.histories.find(ctx, w, w.Namespace, "UsageHistory")
	if err != nil || !found {
		return nil, err
	}
	return o.histories()
}

// Checkpoint returns the checkpoint of a container, and false if there is none.
func (r *Reader) Checkpoint(ctx context.Context, key Key) (usage.Checkpoint, bool, error) {
	o, found, err := r.checkpoints.find(ctx, key, key.Autoscaler.Namespace, "checkpoint")
	if err != nil || !found {
		return usage.Checkpoint{}, false, err
	}
	p, err := o.checkpoint()
	return p, err == nil, err
}

// State returns the record of the updater about a workload, and false if there is none. Parts that cannot be decoded are left out.
func (r *Reader) State(ctx context.Context, w cluster.Workload) (ledger.State, bool, error) {
	o, found, err := r.states.find(ctx, w, w.Namespace, "UpdateState")
	if err != nil || !found {
		return ledger.State{}, false, err
	}
	state, _ := o.state(w)
	return state, true, nil
}

// Stored is the usage history that a recommender, podfit's or upstream's, has stored in the cluster.
type Stored struct {
	Checkpoints map[Key]usage.Checkpoint
	Histories   map[cluster.Workload][]usage.History
}

// ReadStored reads the stored usage history. Checkpoints and UsageHistories have an error each, and what could be read is returned in spite of
// them. A cluster without the CRD of UsageHistories has none, which is no error. The API server forbids a user without rights to list them
// without looking whether the CRD exists, so that is looked up.
func ReadStored(ctx context.Context, clients *kube.Clients, o StorageOptions) (out Stored, checkpoints, histories error) {
	out.Checkpoints, checkpoints = NewCheckpoints(clients, o).Load(ctx)
	client := NewHistories(clients, o)
	out.Histories, histories = client.Load(ctx)
	if histories == nil {
		histories = client.Unread()
	}
	if errors.Is(histories, kube.ErrForbidden) {
		if missing, _ := kube.IsMissing(ctx, client.client, client.resource); missing {
			histories = nil
		}
	}
	if checkpoints != nil {
		checkpoints = fmt.Errorf("read the checkpoints of %s: %w", scopeOf(o.Namespace), checkpoints)
	}
	if errors.Is(histories, kube.ErrUnsupported) {
		histories = nil
	}
	if histories != nil {
		histories = fmt.Errorf("read the usage histories of %s: %w", scopeOf(o.Namespace), histories)
	}
	return out, checkpoints, histories
}

// scopeOf describes a namespace for an error; "" means all.
func scopeOf(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// Restore adds the stored history of workloads to a store, as the recommender does at its start. targets has the workload of each VPA whose
// checkpoints count. A checkpoint of another target is not used, because the VPA had that target before. What cannot be decoded is left out.
func (s Stored) Restore(store *usage.Store, targets map[cluster.Key]cluster.Workload, workloads []cluster.Workload) {
	byName := func(x, y Key) int {
		return cmp.Or(x.Autoscaler.Compare(y.Autoscaler), cmp.Compare(x.Container, y.Container))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.Checkpoints), byName) {
		stored := s.Checkpoints[key]
		w, known := targets[key.Autoscaler]
		if !known || !stored.Workload.IsZero() && stored.Workload != w {
			continue
		}
		for _, h := range s.Histories[w] {
			if h.Container == key.Container {
				stored.History = h
			}
		}
		_ = store.Restore(w, key.Container, stored)
	}
	for _, w := range workloads {
		for _, h := range s.Histories[w] {
			_ = store.Recall(w, h) // does nothing if the checkpoint already had it
		}
	}
}
