// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// manyOrphans is a checkpoint store with unused checkpoints. It deletes 50 per second.
type manyOrphans struct {
	*bench
	left int // unused checkpoints
}

func (m *manyOrphans) Collect(ctx context.Context, _ checkpoint.Unused) (n int, err error) {
	for ; m.left > 0; m.left-- {
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(time.Second / 50):
			n++
		}
	}
	return n, nil
}

func TestCollect_manyOrphans_passesContinueAndAllAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		h := process.NewHealth(5 * time.Minute)
		m := &manyOrphans{bench: b, left: 15_000}
		d := b.dependencies()
		d.storage.Checkpoints = m
		d.health = h
		r := newRecommender(b.config, d)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
		defer cancel()
		var last time.Time
		process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
			if !last.IsZero() && now.Sub(last) > 3*time.Minute {
				t.Errorf("%v between two passes", now.Sub(last))
			}
			last = now
			r.pass(ctx, now)
		})
		if m.left > 0 {
			t.Errorf("%d unused checkpoints remain", m.left)
		}
	})
}

// A VPA that was created during an outage of the watch is not in the cache. Its checkpoints are not unused.
func TestCollect_staleWatchOfAutoscalers_deletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		unseen := checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "new"}, Container: "app"}
		b.stored[unseen] = usage.Checkpoint{Version: "v3"}
		b.stale = []string{watcher.AutoscalersFeed}
		b.run(30 * time.Minute)
		if _, ok := b.stored[unseen]; !ok {
			t.Error("the checkpoint of a VPA that is not in the cache yet is deleted")
		}
		b.stale = nil
		b.run(30 * time.Minute)
		if _, ok := b.stored[unseen]; ok {
			t.Error("the unused checkpoint is not deleted")
		}
	})
}
