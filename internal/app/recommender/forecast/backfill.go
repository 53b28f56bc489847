// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom"
)

// A backfill is the progress of reading the past from Prometheus: a week per pass, from yesterday back to 90 days ago.
type backfill struct {
	done     bool
	before   capacity.Day // the next week ends before this day; 0: today
	failures int
}

// The bounds of a backfill.
const (
	backfillDays     = 7
	backfillFailures = 5 // after this many failed passes the past is not read in this term
)

// fill reads a week of the past if the history lacks days of it.
func (l *Loop) fill(ctx context.Context, now time.Time, nodes []cluster.Node, s *capacity.Settings, allocatable bool) {
	b := &l.backfill
	if l.Past == nil || b.done {
		return
	}
	today := capacity.DayOf(now)
	if b.before == 0 || b.before > today {
		b.before = today
	}
	from := max(b.before-backfillDays, today-capacity.MostDays+1)
	if from >= b.before {
		b.done = true
		return
	}
	if l.has(from, b.before) {
		b.before = from
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	hours, err := l.Past(ctx, prom.RequestsQuery{From: from.Time(), To: b.before.Time().Add(-time.Second), Allocatable: allocatable})
	if err != nil {
		if b.failures++; b.failures >= backfillFailures {
			b.done = true
			l.Log.Warn("Cannot read the history of requests from Prometheus; the forecast starts when there is enough own history", slog.Any("error", err))
		}
		return
	}
	b.failures = 0
	b.before = from
	if len(hours) == 0 {
		b.done = true // nothing is stored from before
		return
	}
	for name, days := range capacity.Collect(hours, nodes, &s.Rules) {
		l.history(name).Fill(days, today)
	}
}

// has reports whether each known pool has a value for each day. It is false if no pool is known.
func (l *Loop) has(from, before capacity.Day) bool {
	for _, h := range l.histories {
		known := map[capacity.Day]bool{}
		for i := range h.Days {
			known[h.Days[i].Day] = !h.Days[i].Requested.Has.Empty()
		}
		for d := from; d < before; d++ {
			if !known[d] {
				return false
			}
		}
	}
	return len(l.histories) > 0
}
