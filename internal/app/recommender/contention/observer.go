// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	judge "podfit.dev/podfit/internal/core/contention"
)

const (
	// queryTimeout limits one query.
	queryTimeout = 10 * time.Second
	// interval is the time between two rounds of queries.
	interval = time.Minute
	// maxQueries is the maximum number of queries in a round. If more workloads have a CPU limit, they take turns.
	maxQueries = 30
	// maxConcurrent is the number of queries at the same time.
	maxConcurrent = 2
	// maxFailures is the number of failed queries in a row after which a round ends.
	maxFailures = 3
	// refreshAfter is the least time between two queries of a workload.
	refreshAfter = 5 * time.Minute
	// keepFor is how long the last answer is kept while queries fail.
	keepFor = time.Hour
	// recoveredAfter is the time without a failed query after which the failures are over. Each workload is asked for in this time if they are few.
	recoveredAfter = 2 * refreshAfter
	// maxContainers is the maximum number of containers of an answer that are kept: 20 in each pod.
	maxContainers = 20 * judge.MostPods
)

// Reader reads the CPU throttling of the containers of pods. It returns none without data.
type Reader interface {
	ContainerThrottling(ctx context.Context, q judge.ThrottlingQuery, now time.Time) ([]judge.Throttling, error)
}

// An Answer is what Prometheus answered about a workload.
type Answer struct {
	Containers []judge.Throttling // of the last successful query; nil if it is too old
	Known      bool               // there is such an answer, or it is too old
	at         time.Time          // of the last successful query, or of the first one that failed
	tried      time.Time          // of the last query
}

// An Observer reads the throttling of the workloads that Ask names, one after the other, while Run runs. A nil Observer has no Prometheus.
type Observer struct {
	reader   Reader
	health   *process.Health
	log      *slog.Logger
	failing  bool      // queries failed lately, which was logged
	failedAt time.Time // of the last failed query
	inRow    int       // failed queries in a row

	mu      sync.Mutex
	wanted  map[cluster.Workload]judge.ThrottlingQuery
	answers map[cluster.Workload]Answer
}

// NewObserver returns an observer that sends at most 30 queries a minute.
func NewObserver(r Reader, h *process.Health, log *slog.Logger) *Observer {
	return &Observer{reader: r, health: h, log: log, answers: map[cluster.Workload]Answer{}}
}

// Ask replaces the queries. Answers about other workloads are forgotten. The map must not be changed afterwards.
func (o *Observer) Ask(queries map[cluster.Workload]judge.ThrottlingQuery) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = queries
	maps.DeleteFunc(o.answers, func(w cluster.Workload, _ Answer) bool {
		_, asked := queries[w]
		return !asked
	})
}

// Answer returns what is known about a workload.
func (o *Observer) Answer(w cluster.Workload) Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answers[w]
}

// Run sends the queries until ctx ends. It begins without answers.
func (o *Observer) Run(ctx context.Context) {
	if o == nil {
		return
	}
	o.mu.Lock()
	clear(o.answers)
	o.mu.Unlock()
	process.Every(ctx, interval, o.round)
}

// round sends the queries of an interval. Queries that do not begin within it are among those of a later round.
func (o *Observer) round(ctx context.Context, began time.Time) {
	o.inRow = 0
	process.Each(maxConcurrent, o.next(began), func(w cluster.Workload) {
		if ctx.Err() == nil && time.Since(began) < interval {
			process.Attempt(o.log, o.health, w.String(), func() { o.read(ctx, w) })
		}
	})
}

// next returns the workloads whose query is due: half of them are those with the oldest query, and the others take turns by namespace, so that a
// namespace with many workloads does not delay those of others.
func (o *Observer) next(now time.Time) []cluster.Workload {
	o.mu.Lock()
	defer o.mu.Unlock()
	var due []cluster.Workload
	for w := range o.wanted {
		if a, asked := o.answers[w]; !asked || now.Sub(a.tried) >= refreshAfter || now.Before(a.tried) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b cluster.Workload) int {
		return cmp.Or(o.answers[a].tried.Compare(o.answers[b].tried), a.Compare(b))
	})
	if len(due) <= maxQueries {
		return due
	}
	turns := make(map[cluster.Workload]int, len(due)) // how many of the same namespace are before it
	before := map[string]int{}
	for _, w := range due {
		turns[w] = before[w.Namespace]
		before[w.Namespace]++
	}
	slices.SortStableFunc(due[maxQueries/2:], func(a, b cluster.Workload) int { return turns[a] - turns[b] })
	return due[:maxQueries]
}

// read sends the query of a workload and keeps the answer, if the workload is still asked for.
func (o *Observer) read(ctx context.Context, w cluster.Workload) {
	now := time.Now()
	q, ok := o.begin(w, now)
	if !ok {
		return
	}
	limited, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	containers, err := o.reader.ContainerThrottling(limited, q, now)
	if ctx.Err() != nil { // the process ends
		return
	}
	if len(containers) > maxContainers {
		containers = slices.Clone(containers[:maxContainers])
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report(now, err)
	if _, asked := o.wanted[w]; asked {
		o.answers[w] = o.answers[w].next(now, containers, err)
	}
}

// begin returns the query of a workload, unless it is no longer asked for or too many queries have failed. A query that panics counts as tried,
// too.
func (o *Observer) begin(w cluster.Workload, now time.Time) (judge.ThrottlingQuery, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, asked := o.wanted[w]
	if !asked || o.inRow >= maxFailures {
		return q, false
	}
	a := o.answers[w]
	a.tried = now
	o.answers[w] = a
	return q, true
}

// next returns the answer after a query.
func (a Answer) next(now time.Time, containers []judge.Throttling, err error) Answer {
	if err == nil {
		return Answer{Containers: containers, Known: true, at: now, tried: now}
	}
	a.at = cluster.Earliest(a.at, now)
	a.tried = now
	if now.Sub(a.at) >= keepFor {
		a.Containers = nil
		a.Known = true
	}
	return a
}

// report logs the first of several failed queries, and the first success when none has failed for some time. Queries between them may
// succeed: only those of some workloads may fail. The mutex is held.
func (o *Observer) report(now time.Time, err error) {
	if err == nil {
		o.inRow = 0
		if o.failing && now.Sub(o.failedAt).Abs() >= recoveredAfter {
			o.log.Info("Read the CPU throttling of workloads from Prometheus after earlier failures")
			o.failing = false
		}
		return
	}
	o.inRow++
	if !o.failing {
		o.log.Warn("Cannot read the CPU throttling of workloads from Prometheus; the condition CPUThrottled keeps its last answer for an hour at most", slog.Any("error", err),
			slog.String("remedy", "check --prometheus-address and the credentials"))
	}
	o.failing = true
	o.failedAt = now
}
