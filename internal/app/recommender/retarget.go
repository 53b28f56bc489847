// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"maps"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// advised is the workload that the recommendation in an autoscaler's status was made for.
type advised struct {
	uid    string // of the autoscaler
	target cluster.Workload
}

// own returns the autoscaler, without its recommendation where that was made for another workload: the autoscaler has got a new
// target since. Then nothing may be based on it. What a process before this one recommended for is known from the checkpoints.
func (r *recommender) own(a *cluster.Autoscaler) *cluster.Autoscaler {
	if a == nil || len(a.Advice) == 0 || a.Target.IsZero() {
		return a
	}
	r.mu.Lock()
	of, known := r.advisedFor[a.Key]
	r.mu.Unlock()
	target := of.target
	if !known || of.uid != a.UID {
		target = r.checkpointer.storedOf[a.Key]
	}
	if target.IsZero() || target == a.Target {
		return a
	}
	b := *a
	b.Advice = nil
	return &b
}

// noteAdvised notes that the recommendation in an autoscaler's status is one for its target.
func (r *recommender) noteAdvised(a *cluster.Autoscaler) {
	if a.Target.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advisedFor[a.Key] = advised{a.UID, a.Target}
}

// forgetAdvised forgets the autoscalers, and the workloads, that do not exist any more.
func (r *recommender) forgetAdvised(all []*cluster.Autoscaler) {
	exists := make(map[cluster.Key]bool, len(all))
	for _, a := range all {
		exists[a.Key] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.advisedFor, func(key cluster.Key, _ advised) bool { return !exists[key] })
	maps.DeleteFunc(r.dryRunTargets, func(ref usage.Ref, _ cluster.Resources) bool { return !r.governed[ref.Workload] })
}
