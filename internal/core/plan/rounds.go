// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A recommendation that moves up and down would evict the pods of a workload again and again, each time with an effect. Therefore the
// evictions of a workload are counted in rounds: a round ends when a pod is evicted that was created after the round began. The second
// round may follow at once, because the recommendation of a new VPA grows quickly. Each later one waits for a back-off that doubles. An
// OOM rescue does not wait. Evictions whose replacements did not get the requests have a back-off of their own, and are no rounds.

// rounds are the rounds of evictions of a workload.
type rounds struct {
	at     time.Time // of the last eviction
	newest time.Time // creation of the newest pod when the last round began, by the API server's clock
	n      int
}

// roundsTTL is how long after the last eviction the rounds of a workload are forgotten. It is longer than every back-off.
const roundsTTL = 12 * time.Hour

// noteRound records that a pod was evicted, or may have been.
func (l *Ledger) noteRound(now time.Time, d Attempt) {
	if d.Do != decision.Evict || d.Rescue {
		return
	}
	w := workloadOf(d.Pod)
	r := l.rounds[w]
	if r.n == 0 || d.Pod.Created.After(r.newest) {
		if r.n == 0 || l.evictions[w].ineffective == 0 {
			r.n++
		}
		r.newest = d.Newest
		if r.newest.IsZero() {
			r.newest = d.Pod.Created
		}
	}
	r.at = now
	l.rounds[w] = r
}

// isStored reports whether the rounds are stored. A single round blocks nothing.
func (r rounds) isStored() bool { return r.n > 1 }

// roundsOf returns the rounds of the workload of a pod that would begin the next one; false if the pod belongs to the last round.
func (l *Ledger) roundsOf(p *cluster.Pod) (rounds, bool) {
	r, ok := l.rounds[workloadOf(p)]
	return r, ok && p.Created.After(r.newest)
}

// changesTooOften blocks the next round of evictions during its back-off.
func (t *candidate) changesTooOften() (decision.Reason, bool) {
	r, next := t.w.Ledger.roundsOf(t.d.Pod)
	if !next || r.n < 2 {
		return decision.Reason{}, false
	}
	until := r.at.Add(doubled(t.b.EvictionBackoff, t.b.BackoffMax, r.n-1))
	return decision.Reason{Code: decision.ChangesTooOften, Until: until, Have: r.n}, t.now.Before(until)
}
