// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttling reads the CPU throttling and the objectives of canaries from Prometheus, in parallel to the passes of the updater. It does not
// judge them: package rollout does.
package throttling

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/rollout"
)

const (
	// QueryTimeout limits the queries about one workload.
	QueryTimeout = 10 * time.Second
	// maxInterval limits the time between two queries about a workload, so that an answer is new enough in each pass.
	maxInterval = 2 * time.Minute
	// maxQueries is the maximum number of queries in an interval. If more workloads have a canary, they take turns.
	maxQueries = 100
)

// Reader reads the CPU periods of containers, and the values of the query of an objective. It returns none without data. A query that Prometheus does
// not execute is no failure of Prometheus, whoever wrote it: the answer has the error.
type Reader interface {
	Objective(ctx context.Context, namespace, query string, now time.Time) (values []float64, refused string, err error)
	Throttling(ctx context.Context, q rollout.ThrottlingQuery, now time.Time) ([]rollout.ContainerThrottling, error)
}

// An Observer reads the throttling of the canaries that Ask names, once per interval and workload, while Run runs. A nil Observer has no
// Prometheus.
type Observer = process.Poller[rollout.ThrottlingQuery, rollout.Throttling]

// New returns an observer that sends at most one query about throttling and one of an objective per workload and interval.
func New(r Reader, interval time.Duration, h *process.Health, log *slog.Logger) *Observer {
	return process.NewPoller(process.PollerConfig[rollout.ThrottlingQuery, rollout.Throttling]{
		Interval: min(max(interval, time.Second), maxInterval), Timeout: QueryTimeout, Most: maxQueries, Health: h, Log: log,
		Read: func(ctx context.Context, q rollout.ThrottlingQuery, _ rollout.Throttling, now time.Time) (rollout.Throttling, error) {
			answer := rollout.Throttling{Query: q, At: now}
			err := readThrottling(ctx, r, &answer)
			if q.Objective.Query == "" {
				return answer, err
			}
			values, refused, failed := r.Objective(ctx, q.Namespace, q.Objective.Query, now)
			answer.Objective = rollout.Reading{Failed: failed != nil, Refused: refused, Values: len(values)}
			if len(values) > 0 {
				answer.Objective.Value = values[0]
			}
			return answer, errors.Join(err, failed)
		},
		Failed: func(err error) {
			log.Warn("Cannot read the CPU throttling or an objective of canaries from Prometheus; canaries are judged without throttling, and wait for their objective", slog.Any("error", err),
				slog.String("remedy", "check --prometheus-address and the credentials"))
		},
		Recovered: func() {
			log.Info("Read the CPU throttling and objectives of canaries from Prometheus after earlier failures")
		},
	})
}

// readThrottling reads the CPU throttling that a query asks for, if any.
func readThrottling(ctx context.Context, r Reader, answer *rollout.Throttling) error {
	if len(answer.Query.Canaries) == 0 {
		return nil
	}
	containers, err := r.Throttling(ctx, answer.Query, answer.At)
	switch {
	case err != nil:
		answer.Result = rollout.NoAnswer
	case len(containers) == 0:
		answer.Result = rollout.NoData
	default:
		answer.Result = rollout.Compared
		answer.Containers = containers
	}
	return err
}
