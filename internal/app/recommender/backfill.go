// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/history"
)

// backfillGrace is how long the first pass of a term waits for the history.
const backfillGrace = 15 * time.Second

// awaitBackfill starts to read usage history from Prometheus and waits up to backfillGrace, so that the first pass has the history if
// Prometheus responds promptly. The channel is closed when reading has ended.
func (r *recommender) awaitBackfill(ctx context.Context) <-chan struct{} {
	clear(r.advisedFor) // another replica may have written recommendations since the last term
	var done <-chan struct{}
	process.Attempt(r.log, r.health, "usage history", func() {
		r.catalog.ReadStatuses(r.world.Snapshot().Autoscalers)
		done = r.startBackfill(ctx, time.Now())
	})
	if done == nil {
		done = r.backfill.Abandon(time.Now(), r.served(r.world.Snapshot().Autoscalers))
	}
	select {
	case <-done:
	case <-time.After(backfillGrace):
	case <-ctx.Done():
	}
	return done
}

// startBackfill prepares the usage store, and starts to read the missing history of all namespaces with served VPAs. The returned
// channel is closed when reading has ended.
func (r *recommender) startBackfill(ctx context.Context, now time.Time) <-chan struct{} {
	snapshot := r.world.Snapshot()
	r.profiles.read(ctx)
	v := r.look(snapshot)
	r.usageStore.Tick(now)
	r.configure(now, v)
	r.workloads.SkipRestore()
	r.track(v)
	return r.backfill.Start(ctx, now, r.usageStore, snapshot.Pods, v.served)
}

// mergeHistory adds the history that was read since the last pass to the usage store.
func (r *recommender) mergeHistory(now time.Time) {
	if r.backfill == nil {
		return
	}
	for _, namespace := range r.backfill.Merge(now, r.usageStore) {
		r.workloads.EndHolds(namespace)
	}
}

// learnt records that the pass that started at now has observed live usage. During an outage of the Metrics API it records
// nothing, so the next term reads that time from Prometheus.
func (r *recommender) learnt(ctx context.Context, now time.Time) {
	if r.backfill != nil && r.outage == nil && ctx.Err() == nil {
		r.backfill.Observed(now)
	}
}

// sayHistory sets the condition HistoryIncomplete if history is missing that the recommendation should be based on.
func (a *advice) sayHistory() {
	switch a.by.backfill.State(a.to, a.now) {
	case history.BackfillPending:
		a.report(v1alpha1.ConditionHistoryIncomplete, v1alpha1.ReasonBackfillRunning,
			"Usage history is being read from Prometheus. Until it is read, an existing recommendation does not decrease, and a first recommendation is not made.")
	case history.BackfillIncomplete:
		cause, liveSince := a.by.backfill.Failure(a.to.Namespace)
		a.report(v1alpha1.ConditionHistoryIncomplete, v1alpha1.ReasonBackfillFailed, fmt.Sprintf(
			"Usage history could not be read from Prometheus: %s. The recommendation is based on usage since %s and does not decrease for a day. "+
				"Check that Prometheus answers at --prometheus-address, then restart the recommender.",
			cause, liveSince.UTC().Format(time.RFC3339)))
	default:
		a.report(v1alpha1.ConditionHistoryIncomplete, "", "")
	}
}
