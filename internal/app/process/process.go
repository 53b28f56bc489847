// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package process is what the process of every long-running job needs: flags that all jobs share, the log, clients of the API
// server, leader election, metrics, health checks, and the loop that starts a pass per interval.
package process

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/overview"
)

// A Process contains the log, the registry and the health checks of a long-running command.
type Process struct {
	Log       *slog.Logger
	Registry  *prometheus.Registry
	Metrics   Metrics
	checks    []*Health
	leading   atomic.Bool
	Terminal  bool           // the log is read on a terminal
	Readiness []func() error // each returns why the process is not ready to serve requests, or nil
}

// New returns a process that logs to log and publishes its metrics in reg.
func New(log *slog.Logger, reg *prometheus.Registry) *Process {
	return &Process{Log: log, Registry: reg, Metrics: NewMetrics(reg)}
}

// HealthFor adds a check that fails if a loop has no activity for five intervals, and at least for twice the timeout of reading
// usage.
func (p *Process) HealthFor(loop string, interval time.Duration) *Health {
	h := NewHealth(max(5*interval, 2*UsageTimeout))
	h.loop = loop
	h.succeeded, h.failures = p.Metrics.LastSuccess.WithLabelValues(loop), p.Metrics.Failures.WithLabelValues(loop)
	p.checks = append(p.checks, h)
	return h
}

// leads publishes that this process is the leader until ended is called.
func (p *Process) leads() (ended func()) {
	p.leading.Store(true)
	p.Metrics.Leading.Set(1)
	p.Metrics.Transitions.Inc()
	return func() {
		p.leading.Store(false)
		p.Metrics.Leading.Set(0)
		p.Metrics.Transitions.Inc()
	}
}

// Recovering returns a function that calls do, and logs and counts a panic, so that the loop continues with the next pass.
func (p *Process) Recovering(loop string, do func(context.Context, time.Time)) func(context.Context, time.Time) {
	failures := p.Metrics.Failures.WithLabelValues(loop)
	return func(ctx context.Context, now time.Time) {
		defer func() {
			if cause := recover(); cause != nil {
				failures.Inc()
				p.Log.Error("A pass panicked; the next pass starts at the next interval", slog.String("loop", loop), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			}
		}()
		do(ctx, now)
	}
}

// run serves metrics and health and runs the work until the context ends or one of the two fails. Metrics and health are served until
// the work has returned, so that readiness probes fail in the meantime.
func (p *Process) run(ctx context.Context, address string, profiling bool, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	observed, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	g.Go(func() error { return serve(observed, p.Log, address, p.observation(profiling)) })
	g.Go(func() error {
		defer ended()
		return work(ctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	p.Log.Info("Stopped")
	return nil
}

// Every calls do immediately and then once per interval with the current time, until ctx ends. If a call takes longer than the
// interval, ticks in the meantime are dropped, and the next call starts at the next tick.
func Every(ctx context.Context, interval time.Duration, do func(context.Context, time.Time)) {
	EveryOr(ctx, interval, nil, 0, func(ctx context.Context, now time.Time) time.Duration {
		do(ctx, now)
		return 0
	})
}

// maxEarlyShare bounds the cost of early calls of EveryOr to one tenth of the time.
const maxEarlyShare = 10

// EveryOr is Every with early calls: it also calls do when early receives a value. Values that early receives before an early call is
// allowed cause one call. do returns its cost, which is the time for which it computed, without the time for which it waited.
//
// An early call starts at least period after the start of the last call, and not before the last call and the pause after it have
// taken maxEarlyShare times the cost of the last call. So any number of values causes at most a tenth of one processor. Early calls do
// not change the times of the other calls.
func EveryOr(ctx context.Context, interval time.Duration, early <-chan struct{}, period time.Duration, do func(context.Context, time.Time) time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		began := time.Now()
		cost := do(ctx, began)
		ended := time.Now()
		select {
		case <-t.C: // a tick during the call
		default:
		}
		earliest := began.Add(period)
		if paused := ended.Add((maxEarlyShare - 1) * cost); paused.After(earliest) {
			earliest = paused
		}
		if !waitForCall(ctx, t.C, early, earliest) {
			return
		}
	}
}

// waitForCall waits for a tick, or for a value of early, which has no effect before the given time. It returns false if ctx ends first.
func waitForCall(ctx context.Context, tick <-chan time.Time, early <-chan struct{}, earliest time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-tick:
		return ctx.Err() == nil
	case <-time.After(time.Until(earliest)):
	}
	select {
	case <-ctx.Done():
		return false
	case <-tick:
	case <-early:
	}
	return ctx.Err() == nil
}

// UsageTimeout is the timeout for reading all pages of the Metrics API.
const UsageTimeout = 2 * time.Minute

// Loops returns the state of the loops of this process.
func (p *Process) Loops() []overview.Loop {
	out := make([]overview.Loop, 0, len(p.checks))
	for _, h := range p.checks {
		out = append(out, overview.Loop{Name: h.loop, Window: h.window, Active: ptr.Deref(h.last.Load(), time.Time{}), Passed: ptr.Deref(h.passed.Load(), time.Time{})})
	}
	return out
}

// IsLeading reports whether this process is the leader, or runs without leader election.
func (p *Process) IsLeading() bool { return p.leading.Load() }

// MemoryLimitVariable is the environment variable with the memory limit of the container in bytes, as a resourceFieldRef
// to limits.memory sets it (deploy/).
const MemoryLimitVariable = "PODFIT_MEMORY_LIMIT"

// gcPercent is by how much the heap grows before the garbage collector runs, if GOGC is not set. With 100,000 pods, podfit needs a third less memory
// than with Go's 100 %, and a tenth more CPU time (docs/performance.md).
const gcPercent = 33

// heapLimit returns 90 % of the memory limit of the container, as the memory limit for the Go runtime, which does not count the binary
// and kernel memory of the process. It is 0, which means that the limit of the runtime is not changed, if the limit of the
// container is not known or GOMEMLIMIT is set.
func heapLimit(getenv func(string) string) (int64, error) {
	const minMemoryLimit = 16 << 20 // in bytes; with less, the garbage collector of the Go runtime would never stop
	text := getenv(MemoryLimitVariable)
	if text == "" || getenv("GOMEMLIMIT") != "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < minMemoryLimit {
		return 0, fmt.Errorf("environment variable %s must be a number of bytes of at least %d, got %q; check the divisor of the resourceFieldRef", MemoryLimitVariable, minMemoryLimit, text)
	}
	return limit - limit/10, nil
}
