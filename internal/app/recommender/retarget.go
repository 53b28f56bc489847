// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"maps"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// advised is the workload that the recommendation in the status of an autoscaler is for.
type advised struct {
	uid    string // of the autoscaler
	target cluster.Workload
}

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
func (r *recommender) noteAdvised(a *cluster.Autoscaler) {
	if a.Target.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advisedFor[a.Key] = advised{a.UID, a.Target}
}

// forgetAdvised removes autoscalers that no longer exist, and workloads that no served autoscaler references.
func (r *recommender) forgetAdvised(all []*cluster.Autoscaler) {
	exists := make(map[cluster.Key]bool, len(all))
	for _, a := range all {
		exists[a.Key] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.advisedFor, func(key cluster.Key, _ advised) bool { return !exists[key] })
	maps.DeleteFunc(r.released, func(key cluster.Key, _ released) bool { return !exists[key] })
	maps.DeleteFunc(r.dryRunTargets, func(ref usage.Ref, _ cluster.Resources) bool { return !r.governed[ref.Workload] })
}
