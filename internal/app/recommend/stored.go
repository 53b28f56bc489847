// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// readStored reads the stored usage history. What cannot be read is added to the gaps of the scene.
func readStored(ctx context.Context, clients *kube.Clients, namespace string, s *scene) (checkpoint.Stored, error) {
	out, checkpoints, histories := checkpoint.ReadStored(ctx, clients, checkpoint.StorageOptions{Namespace: namespace})
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	for _, err := range []error{checkpoints, histories} {
		if err != nil {
			s.Missing = append(s.Missing, err.Error())
			s.unread = true
		}
	}
	return out, nil
}

// restore adds the stored history of reviewed workloads to a book. A container whose history cannot be restored has no evidence.
func (b *book) restore(from checkpoint.Stored) {
	targets := map[cluster.Key]cluster.Workload{}
	var workloads []cluster.Workload
	for _, w := range b.scene.workloads {
		workloads = append(workloads, w.key)
		if w.vpa != nil {
			targets[w.vpa.Key] = w.key
		}
	}
	from.Restore(b.store, targets, workloads)
	b.workloads.SkipRestore()
	b.track()
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
	e := review.StoredEvidence(w.vpa, container, b.store.Series(w.key, container), b.scene.Now)
	if b.scene.unread && w.vpa != nil {
		e.Lack = review.UnreadUsage
	}
	return e
}
