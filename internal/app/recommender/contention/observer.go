// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"context"
	"log/slog"
	"slices"
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
	// maxFailures is the number of failed queries in a row after which a round ends.
	maxFailures = 3
	// refreshAfter is the least time between two queries of a workload.
	refreshAfter = 5 * time.Minute
	// keepFor is how long the last answer is kept while queries fail.
	keepFor = time.Hour
	// maxContainers is the maximum number of containers of an answer that are kept: 20 in each pod.
	maxContainers = 20 * judge.MostPods
)

// A Read reads the CPU throttling of the containers of pods. It returns none without data.
type Read func(ctx context.Context, q judge.ThrottlingQuery, now time.Time) ([]judge.Throttling, error)

// An Answer is what Prometheus answered about a workload.
type Answer struct {
	Containers []judge.Throttling // of the last successful query; nil if it is too old
	Known      bool               // there is such an answer, or it is too old
	at         time.Time          // of the last successful query, or of the first one that failed
}

// An Observer reads the throttling of the workloads that Ask names, one after the other, while Run runs. A nil Observer has no Prometheus.
type Observer = process.Poller[judge.ThrottlingQuery, Answer]

// NewObserver returns an observer that sends at most 30 queries a minute.
func NewObserver(read Read, h *process.Health, log *slog.Logger) *Observer {
	return process.NewPoller(process.PollerConfig[judge.ThrottlingQuery, Answer]{
		Interval: interval, Again: refreshAfter, Timeout: queryTimeout, Most: maxQueries, MaxFailures: maxFailures, Health: h, Log: log,
		Read: func(ctx context.Context, q judge.ThrottlingQuery, before Answer, now time.Time) (Answer, error) {
			containers, err := read(ctx, q, now)
			return before.next(now, containers, err), err
		},
		Failed: func(err error) {
			log.Warn("Cannot read the CPU throttling of workloads from Prometheus; the condition CPUThrottled keeps its last answer for an hour at most", slog.Any("error", err),
				slog.String("remedy", "check --prometheus-address and the credentials"))
		},
		Recovered: func() { log.Info("Read the CPU throttling of workloads from Prometheus after earlier failures") },
	})
}

// next returns the answer after a query.
func (a Answer) next(now time.Time, containers []judge.Throttling, err error) Answer {
	if len(containers) > maxContainers {
		containers = slices.Clone(containers[:maxContainers])
	}
	if err == nil {
		return Answer{Containers: containers, Known: true, at: now}
	}
	a.at = cluster.Earliest(a.at, now)
	if now.Sub(a.at) >= keepFor {
		a.Containers = nil
		a.Known = true
	}
	return a
}
