// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// A Process is what a long-running command works with: its log, its one registry, and the checks of its loops.
type Process struct {
	Log       *slog.Logger
	Registry  *prometheus.Registry
	Metrics   Metrics
	checks    []*Health
	Readiness []func() error // each says why the process is not ready for work from others, or nil
}

// New returns a process that logs to log and publishes its metrics in reg.
func New(log *slog.Logger, reg *prometheus.Registry) *Process {
	return &Process{Log: log, Registry: reg, Metrics: NewMetrics(reg)}
}

// HealthFor adds a check to the process that fails when a loop makes no progress for five intervals, or for much longer
// than one step may take.
func (p *Process) HealthFor(loop string, interval time.Duration) *Health {
	h := NewHealth(max(5*interval, 2*UsageTimeout))
	h.succeeded, h.failures = p.Metrics.LastSuccess.WithLabelValues(loop), p.Metrics.Failures.WithLabelValues(loop)
	p.checks = append(p.checks, h)
	return h
}

// leads notes that this process does the work of the leader, until the returned function is called.
func (p *Process) leads() (ended func()) {
	p.Metrics.Leading.Set(1)
	p.Metrics.Transitions.Inc()
	return func() {
		p.Metrics.Leading.Set(0)
		p.Metrics.Transitions.Inc()
	}
}

// Recovering returns do for a loop that goes on with the next pass when one panics.
func (p *Process) Recovering(loop string, do func(context.Context, time.Time)) func(context.Context, time.Time) {
	failures := p.Metrics.Failures.WithLabelValues(loop)
	return func(ctx context.Context, now time.Time) {
		defer func() {
			if cause := recover(); cause != nil {
				failures.Inc()
				p.Log.Error("A pass panicked; the next pass starts at the next interval", "loop", loop, "panic", cause, "stack", string(debug.Stack()))
			}
		}()
		do(ctx, now)
	}
}

// run serves metrics and health and does the work, until the context ends or one of the two fails. Metrics and health are
// served until the work has wound up, so that others see that the process is no longer ready.
func (p *Process) run(ctx context.Context, address string, profiling bool, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	observed, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	handler := withReadiness(observation(p.Registry, profiling, p.checks...), p.Readiness)
	g.Go(func() error { return serve(observed, p.Log, address, handler) })
	g.Go(func() error {
		defer ended()
		return work(ctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	p.Log.Info("Ended")
	return nil
}

// Every calls do at once and then once per interval until ctx ends, with the present time. A round that takes longer than
// the interval delays the next one to the next whole interval: rounds never overlap and are never made up for.
func Every(ctx context.Context, interval time.Duration, do func(context.Context, time.Time)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		do(ctx, time.Now())
		select {
		case <-t.C: // it came during the round
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// UsageTimeout bounds one reading of the Metrics API, which may take several pages.
const UsageTimeout = 2 * time.Minute
