// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// timeToAct is how long before the end of a pass the wait for the rate limit ends.
const timeToAct = 10 * time.Second

// Rates are the rate limits. Deletions and surges share that of evictions.
type Rates struct {
	limiters map[decision.Act]*rate.Limiter // for Evict and Resize

	mu        sync.Mutex            // guards the following while pods are changed
	unused    map[decision.Act]int  // actions that a limit has allowed and that were not sent, because they could not be announced; at most its burst
	exhausted map[decision.Act]bool // actions of which the limit allows no more in this pass
	taken     map[string]bool       // pods whose refused eviction was allowed by the limit, and that are deleted instead, by UID
}

// NewRates returns rate limits in actions per second, with a burst. A limit of 0 or less is none.
func NewRates(perSecond float64, most int) *Rates {
	limit := rate.Inf
	burst := 0
	if perSecond > 0 {
		limit = rate.Limit(perSecond)
		burst = most
	}
	limiters := map[decision.Act]*rate.Limiter{decision.Evict: rate.NewLimiter(limit, burst), decision.Resize: rate.NewLimiter(limit, burst)}
	return &Rates{limiters: limiters, unused: map[decision.Act]int{}}
}

// Begin begins a pass.
func (r *Rates) Begin() {
	r.exhausted = map[decision.Act]bool{}
	r.taken = map[string]bool{}
	for do, limiter := range r.limiters {
		r.unused[do] = max(0, min(r.unused[do], limiter.Burst()-int(limiter.Tokens())))
	}
}

// Take reports whether a decision is allowed without a wait, or else whether no more actions of its kind are allowed in this pass. A deletion
// that follows a refused eviction is allowed, once: the eviction took no pod away.
func (r *Rates) Take(d *decision.Decision) (allowed, exhausted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do := laneOf(d).do
	switch {
	case d.Do == decision.Delete && r.taken[d.Pod.UID]:
		delete(r.taken, d.Pod.UID)
		return true, false
	case r.exhausted[d.Do]:
		return false, true
	case r.unused[do] > 0:
		r.unused[do]--
		return true, false
	}
	return r.limiters[do].Allow(), false
}

// Wait waits until a decision is allowed. It returns an error if no more actions of its kind are allowed in this pass, and whether that is new.
func (r *Rates) Wait(ctx context.Context, d *decision.Decision) (isNew bool, err error) {
	// An action that the limit allows shortly before the pass ends could not be completed.
	if end, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-timeToAct))
		defer cancel()
	}
	err = r.limiters[laneOf(d).do].Wait(ctx)
	if err == nil {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew = !r.exhausted[d.Do]
	r.exhausted[d.Do] = true
	return isNew, err
}

// GiveBack lets another action use what an action that is not sent has taken.
func (r *Rates) GiveBack(d *decision.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unused[laneOf(d).do]++
}

// Keep lets the deletion of a pod use what its refused eviction has taken.
func (r *Rates) Keep(p *cluster.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[p.UID] = true
}
