// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Stored is the usage history that a recommender, podfit's or upstream's, has stored in the cluster.
type Stored struct {
	Checkpoints map[Key]usage.Checkpoint
	Histories   map[cluster.Workload][]usage.History
}

// ReadStored reads the stored usage history. Checkpoints and UsageHistories have an error each, and what could be read is returned in spite of
// them. A cluster without the CRD of UsageHistories has none, which is no error.
func ReadStored(ctx context.Context, clients *kube.Clients, o StorageOptions) (out Stored, checkpoints, histories error) {
	out.Checkpoints, checkpoints = NewCheckpoints(clients, o).Load(ctx)
	client, histories := NewHistories(clients, o)
	if histories == nil {
		out.Histories, histories = client.Load(ctx)
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
	for _, key := range slices.SortedFunc(maps.Keys(s.Checkpoints), compareKeys) {
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

func compareKeys(x, y Key) int {
	if c := x.Autoscaler.Compare(y.Autoscaler); c != 0 {
		return c
	}
	return strings.Compare(x.Container, y.Container)
}
