// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// A stored has the usage history that a recommender, podfit's or upstream's, has stored in the cluster.
type stored struct {
	checkpoints map[checkpoint.Key]usage.Checkpoint
	histories   map[cluster.Workload][]usage.History
}

// readStored reads the stored usage history. Parts that the cluster does not have are absent.
func readStored(ctx context.Context, clients *kube.Clients, namespace string, s *scene) (stored, error) {
	o := checkpoint.StorageOptions{Namespace: namespace}
	var out stored
	var err error
	if out.checkpoints, err = checkpoint.NewCheckpoints(clients, o).Load(ctx); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		s.missing = append(s.missing, fmt.Sprintf("checkpoints of VPAs: %v", err))
	}
	histories, err := checkpoint.NewHistories(clients, o)
	if err != nil {
		return out, err
	}
	out.histories, err = histories.Load(ctx)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil && !errors.Is(err, kube.ErrUnsupported):
		s.missing = append(s.missing, fmt.Sprintf("usage histories: %v", err))
	}
	return out, nil
}

// restore adds the stored history of reviewed workloads to a book.
func (b *book) restore(from stored) {
	for _, key := range sortedKeys(from.checkpoints) {
		c := from.checkpoints[key]
		w := b.scene.byVPA(key.Autoscaler)
		if w == nil || !c.Workload.IsZero() && c.Workload != w.key {
			continue
		}
		for _, h := range from.histories[w.key] {
			if h.Container == key.Container {
				c.History = h
			}
		}
		_ = b.store.Restore(w.key, key.Container, c) // what cannot be restored is not used, and the container has no evidence
	}
	for _, w := range b.scene.workloads {
		for _, h := range from.histories[w.key] {
			_ = b.store.Recall(w.key, h) // as above; does nothing if the checkpoint already had it
		}
	}
	b.workloads.SkipRestore()
	b.track()
}

func sortedKeys(checkpoints map[checkpoint.Key]usage.Checkpoint) []checkpoint.Key {
	keys := make([]checkpoint.Key, 0, len(checkpoints))
	for key := range checkpoints {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y checkpoint.Key) int {
		if c := x.Autoscaler.Compare(y.Autoscaler); c != 0 {
			return c
		}
		return strings.Compare(x.Container, y.Container)
	})
	return keys
}

// byVPA returns the reviewed workload that a VPA governs, or nil.
func (s *scene) byVPA(key cluster.Key) *workload {
	if s.vpas == nil {
		s.vpas = map[cluster.Key]*workload{}
		for _, w := range s.workloads {
			if w.vpa != nil {
				s.vpas[w.vpa.Key] = w
			}
		}
	}
	return s.vpas[key]
}

// adviseStored returns the recommendation for a workload from what the cluster has stored: the status of its VPA, or for another profile
// what the stored model state leads to.
func (b *book) adviseStored(w *workload) []cluster.Advice {
	if b.usesOwn(w) {
		return w.vpa.Advice
	}
	advice := b.advise(w)
	if !b.scene.catalog.Of(b.sizedBy[w.key]).Edition.ModelState {
		return advice
	}
	return slices.DeleteFunc(advice, func(a cluster.Advice) bool {
		series := b.store.Series(w.key, a.Container)
		return series == nil || !series.Recalled()
	})
}

// storedEvidence returns what the stored history of a container shows.
func (b *book) storedEvidence(w *workload, container string) review.Evidence {
	return review.StoredEvidence(w.vpa, container, b.store.Series(w.key, container), b.scene.now)
}
