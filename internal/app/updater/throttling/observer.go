// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttling reads the CPU throttling of canaries from Prometheus, in parallel to the passes of the updater. It does not judge it:
// package rollout does.
package throttling

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/rollout"
)

const (
	// QueryTimeout limits one query.
	QueryTimeout = 10 * time.Second
	// maxQueries is the maximum number of queries in an interval. If more workloads have a canary, they take turns.
	maxQueries = 100
)

// Reader reads the CPU periods of containers. It returns none without data.
type Reader interface {
	Throttling(ctx context.Context, q rollout.ThrottlingQuery, now time.Time) ([]rollout.ContainerThrottling, error)
}

// An Observer reads the throttling of the canaries that Ask names, once per interval and workload, while Run runs. A nil Observer has no
// Prometheus.
type Observer = process.Poller[rollout.ThrottlingQuery, rollout.Throttling]

// New returns an observer that sends at most one query per workload and interval.
func New(r Reader, interval time.Duration, h *process.Health, log *slog.Logger) *Observer {
	return process.NewPoller(process.PollerConfig[rollout.ThrottlingQuery, rollout.Throttling]{
		Interval: max(interval, time.Second), Timeout: QueryTimeout, Most: maxQueries, Health: h, Log: log,
		Read: func(ctx context.Context, q rollout.ThrottlingQuery, _ rollout.Throttling, now time.Time) (rollout.Throttling, error) {
			containers, err := r.Throttling(ctx, q, now)
			answer := rollout.Throttling{Query: q, At: now, Result: rollout.Compared, Containers: containers}
			switch {
			case err != nil:
				answer.Result = rollout.NoAnswer
				answer.Containers = nil
			case len(containers) == 0:
				answer.Result = rollout.NoData
			}
			return answer, err
		},
		Failed: func(err error) {
			log.Warn("Cannot read the CPU throttling of canaries from Prometheus; canaries are judged without it", slog.Any("error", err),
				slog.String("remedy", "check --prometheus-address and the credentials"))
		},
		Recovered: func() { log.Info("Read the CPU throttling of canaries from Prometheus after earlier failures") },
	})
}
