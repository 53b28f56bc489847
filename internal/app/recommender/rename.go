// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"log/slog"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

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
