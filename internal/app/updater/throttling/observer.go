// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttling reads the CPU throttling of canaries from Prometheus, in parallel to the passes of the updater. It does not judge it:
// package rollout does.
package throttling

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
	"podfit.dev/podfit/internal/core/rollout"
)

const (
	// QueryTimeout limits one query.
	QueryTimeout = 10 * time.Second
	// maxQueries is the maximum number of queries in an interval. If more workloads have a canary, they take turns.
	maxQueries = 100
	// maxConcurrent is the number of queries at the same time.
	maxConcurrent = 2
)

// Reader reads the CPU periods of containers. It returns none without data.
type Reader interface {
	Throttling(ctx context.Context, q rollout.ThrottlingQuery, now time.Time) ([]rollout.ContainerThrottling, error)
}

// An Observer reads the throttling of the canaries that Ask names, once per interval and workload, while Run runs. A nil Observer has no
// Prometheus.
type Observer struct {
	reader   Reader
	interval time.Duration
	health   *process.Health
	log      *slog.Logger
	failing  bool // the last query failed, which was logged

	mu      sync.Mutex
	wanted  map[cluster.Workload]rollout.ThrottlingQuery
	answers map[cluster.Workload]rollout.Throttling
}

// New returns an observer that sends at most one query per workload and interval.
func New(r Reader, interval time.Duration, h *process.Health, log *slog.Logger) *Observer {
	return &Observer{
		reader: r, interval: max(interval, time.Second), health: h, log: log, answers: map[cluster.Workload]rollout.Throttling{},
	}
}

// Ask replaces the queries. Answers of other workloads are forgotten. The map must not be changed afterwards.
func (o *Observer) Ask(queries map[cluster.Workload]rollout.ThrottlingQuery) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = queries
	maps.DeleteFunc(o.answers, func(w cluster.Workload, _ rollout.Throttling) bool {
		_, asked := queries[w]
		return !asked
	})
}

// Answers returns the last answer of each workload. It returns nil if there is no Prometheus.
func (o *Observer) Answers() map[cluster.Workload]rollout.Throttling {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.answers)
}

// Run sends the queries until ctx ends.
func (o *Observer) Run(ctx context.Context) {
	if o == nil {
		return
	}
	process.Every(ctx, o.interval, o.readAll)
}

// readAll sends the queries of an interval. Queries that do not end within it are not waited for.
func (o *Observer) readAll(ctx context.Context, _ time.Time) {
	ctx, cancel := context.WithTimeout(ctx, o.interval)
	defer cancel()
	process.Each(maxConcurrent, o.next(), func(w cluster.Workload) {
		process.Attempt(o.log, o.health, w.String(), func() { o.read(ctx, w) })
	})
}

// next returns the workloads with queries, those with the oldest answer first.
func (o *Observer) next() []cluster.Workload {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := slices.SortedFunc(maps.Keys(o.wanted), func(a, b cluster.Workload) int {
		return cmp.Or(o.answers[a].At.Compare(o.answers[b].At), a.Compare(b))
	})
	return due[:min(len(due), maxQueries)]
}

// read sends the query of a workload and keeps the answer, if the workload is still asked for.
func (o *Observer) read(ctx context.Context, w cluster.Workload) {
	o.mu.Lock()
	q, asked := o.wanted[w]
	o.mu.Unlock()
	if !asked || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	now := time.Now()
	containers, err := o.reader.Throttling(ctx, q, now)
	answer := rollout.Throttling{Query: q, At: now, Result: rollout.Compared, Containers: containers}
	switch {
	case err != nil:
		answer.Result = rollout.NoAnswer
		answer.Containers = nil
	case len(containers) == 0:
		answer.Result = rollout.NoData
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report(err)
	if _, asked := o.wanted[w]; asked {
		o.answers[w] = answer
	}
}

// report logs the first of several failed queries in a row. The mutex is held.
func (o *Observer) report(err error) {
	if err != nil && !o.failing {
		o.log.Warn("Cannot read the CPU throttling of canaries from Prometheus; canaries are judged without it", slog.Any("error", err),
			slog.String("remedy", "check --prometheus-address and the credentials"))
	}
	if err == nil && o.failing {
		o.log.Info("Read the CPU throttling of canaries from Prometheus after earlier failures")
	}
	o.failing = err != nil
}
