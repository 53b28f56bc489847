// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// roundRecords are the evictions of all pods of a workload.
type roundRecords struct {
	rounds    map[cluster.Workload]RoundsState // evictions of all pods of a workload
	allRounds map[cluster.Workload]RoundsState // the same with OOM rescues
}

// A recommendation that moves up and down would evict the pods of a workload again and again, each time with an effect. Therefore the
// evictions of a workload are counted in rounds: a round ends when a pod is evicted that was created after the round began. The second
// round may follow at once, because the recommendation of a new VPA grows quickly. Each later one waits for a back-off that doubles. An
// OOM rescue is no such round, because it follows from a kill: the rounds of all evictions are counted too, and bound rescues only, by a shorter
// back-off. They are not stored. A move from a node that is nearly out of memory is no round: package guard bounds these. Evictions whose replacements did not get the requests have a back-off of their own, and are no rounds.

// roundsTTL is how long after the last eviction the rounds of a workload are forgotten. It is longer than every back-off.
const roundsTTL = 12 * time.Hour

// noteRound records that a pod was evicted, or may have been.
func (l *Ledger) noteRound(now time.Time, d Attempt) {
	if d.Do != decision.Evict || d.Guard {
		return
	}
	l.noteRoundIn(l.allRounds, now, d)
	if !d.Rescue {
		l.noteRoundIn(l.rounds, now, d)
	}
}

func (l *evictionRecords) noteRoundIn(rounds map[cluster.Workload]RoundsState, now time.Time, d Attempt) {
	w := d.Pod.Workload()
	r := rounds[w]
	if r.Count == 0 || d.Pod.Created.After(r.Newest) {
		if r.Count == 0 || l.evictions[w].Ineffective == 0 {
			r.Count++
		}
		r.Newest = cmp.Or(d.Newest, d.Pod.Created)
	}
	r.At = now
	rounds[w] = r
}

// NextRound returns the earlier rounds of a workload if the eviction of this pod would begin another one. It returns false if the pod belongs to the
// last round. For a rescue, OOM rescues count as rounds, too.
func (l *roundRecords) NextRound(p *cluster.Pod, rescue bool) (RoundsState, bool) {
	rounds := l.rounds
	if rescue {
		rounds = l.allRounds
	}
	r, ok := rounds[p.Workload()]
	return r, ok && p.Created.After(r.Newest)
}
