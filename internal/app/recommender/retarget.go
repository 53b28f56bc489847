// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// writtenStatuses is what is known of the statuses that were written. Concurrent writers of statuses use it.
type writtenStatuses struct {
	mu            sync.Mutex                      // guards the fields below
	dryRunTargets map[usage.Ref]cluster.Resources // targets that a dry run has logged
	advisedFor    map[cluster.Key]advised         // by autoscaler
	released      map[cluster.Key]released        // by autoscaler
}

// advised is the workload that the recommendation in the status of an autoscaler is for.
type advised struct {
	uid    string // of the autoscaler
	target cluster.Workload
}

// released is an autoscaler that this recommender does not serve, without podfit's conditions.
type released struct{ uid, recommender string }

// own returns the autoscaler, without its recommendation if that is for another workload: the target was changed, so the
// recommendation must not be used. After a start of the process, the checkpoints contain the workload. It returns nil for nil.
func (r *recommender) own(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || len(a.Advice) == 0 || a.Target.IsZero() {
		return a
	}
	r.mu.Lock()
	last, known := r.advisedFor[a.Key]
	r.mu.Unlock()
	target := last.target
	if !known || last.uid != a.UID {
		target = r.checkpointer.StoredWorkload(a.Key)
	}
	if target.IsZero() || target == a.Target {
		return a
	}
	b := *a
	b.Advice = nil
	return &b
}

// noteAdvised records that the recommendation in the status of an autoscaler is for its current target.
func (w *writtenStatuses) noteAdvised(a *cluster.Autoscaler) {
	if a.Target.IsZero() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advisedFor[a.Key] = advised{a.UID, a.Target}
}

// isNews records the target that a dry run logs for a container. It reports whether it is the first one, or differs from the last one by more
// than a tenth.
func (w *writtenStatuses) isNews(ref usage.Ref, target cluster.Resources) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, logged := w.dryRunTargets[ref]
	if logged && !moved(before.CPU, target.CPU) && !moved(before.Memory, target.Memory) {
		return false
	}
	w.dryRunTargets[ref] = target
	return true
}

// moved reports whether an amount has changed by more than a tenth.
func moved(from, to int64) bool { return max(from, to)-min(from, to) > from/10 }

// keep forgets autoscalers that no longer exist, and workloads that no served autoscaler references.
func (w *writtenStatuses) keep(all []*cluster.Autoscaler, governed map[cluster.Workload]bool) {
	exists := cluster.KeysOf(all)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.advisedFor, func(key cluster.Key, _ advised) bool { return !exists[key] })
	maps.DeleteFunc(w.released, func(key cluster.Key, _ released) bool { return !exists[key] })
	maps.DeleteFunc(w.dryRunTargets, func(ref usage.Ref, _ cluster.Resources) bool { return !governed[ref.Workload] })
}

// continueFormer adds the usage history of a former workload to that of its successor, which has another name (annotation
// podfit.dev/continues), once the former workload is gone.
func (r *recommender) continueFormer(now time.Time, v *view) {
	former := map[cluster.Workload]cluster.Workload{} // by successor
	gone := map[cluster.Workload]bool{}
	for w, a := range v.governing {
		if of := a.Former(); !of.IsZero() && r.world.Scale(of).Gone {
			former[w] = of
			gone[of] = true
		}
	}
	if len(former) == 0 {
		return
	}
	r.checkpointer.RestoreFormer(now, gone)
	for w, of := range former {
		containers, err := r.usageStore.Continue(w, of)
		if err != nil {
			r.log.Warn("Cannot add all usage history of the former name of a workload", slog.String("vpa", v.governing[w].Key.String()), slog.Any("error", err))
		}
		if len(containers) > 0 {
			r.log.Info("Added the usage history of the former name of a workload", slog.String("vpa", v.governing[w].Key.String()),
				slog.String("from", of.String()), slog.String("containers", strings.Join(containers, ", ")))
		}
	}
}
