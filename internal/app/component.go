// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

// settings is a configuration that reads itself from flags.
type settings interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// A process is what a long-running command works with: its log, its one registry, and the checks of its loops.
type process struct {
	log       *slog.Logger
	reg       *prometheus.Registry
	metrics   processMetrics
	checks    []*Health
	readiness []func() error // each says why the process is not ready for work from others, or nil
}

func newProcess(log *slog.Logger, reg *prometheus.Registry) *process {
	return &process{log: log, reg: reg, metrics: newProcessMetrics(reg)}
}

// healthFor adds a check to the process that fails when a loop makes no progress for five intervals, or for much longer
// than one step may take.
func (p *process) healthFor(loop string, interval time.Duration) *Health {
	h := NewHealth(max(5*interval, 2*usageTimeout))
	h.succeeded, h.failures = p.metrics.lastSuccess.WithLabelValues(loop), p.metrics.failures.WithLabelValues(loop)
	p.checks = append(p.checks, h)
	return h
}

// leads notes that this process does the work of the leader, until the returned function is called.
func (p *process) leads() (ended func()) {
	p.metrics.leading.Set(1)
	p.metrics.transitions.Inc()
	return func() {
		p.metrics.leading.Set(0)
		p.metrics.transitions.Inc()
	}
}

// recovering returns do for a loop that goes on with the next pass when one panics.
func (p *process) recovering(loop string, do func(context.Context, time.Time)) func(context.Context, time.Time) {
	failures := p.metrics.failures.WithLabelValues(loop)
	return func(ctx context.Context, now time.Time) {
		defer func() {
			if cause := recover(); cause != nil {
				failures.Inc()
				p.log.Error("A pass panicked; the next pass starts at the next interval", "loop", loop, "panic", cause, "stack", string(debug.Stack()))
			}
		}()
		do(ctx, now)
	}
}

// longRunning is a command that runs until it is told to end.
type longRunning struct {
	use, short, long string
	config           settings
	common           func() *Common
	address          func() string
	// prepare builds the work before anything is served, so that its checks are known.
	prepare func(*process) (work func(context.Context) error, err error)
}

func (l longRunning) command(s Streams) *cobra.Command {
	c := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Args: cobra.NoArgs}
	l.config.Flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := l.config.Validate(); err != nil {
			return usageError{err}
		}
		common := l.common()
		log, closer, err := common.Log.Open(s.Err)
		if err != nil {
			return usageError{err}
		}
		defer closer.Close()
		limit, err := heapLimit(os.Getenv)
		if err != nil {
			return usageError{err}
		}
		if limit > 0 {
			debug.SetMemoryLimit(limit)
		}
		p := newProcess(log, newRegistry())
		log.Info("Starting", "command", "podfit "+l.use, "version", buildVersion())
		warnOfDeprecated(log, c.Flags())
		work, err := l.prepare(p)
		if err != nil {
			return err
		}
		defer context.AfterFunc(c.Context(), func() { log.Info("Ending: waiting for what is under way", "because", context.Cause(c.Context())) })()
		return p.run(c.Context(), l.address(), common.Profiling, work)
	}
	return c
}

// run serves metrics and health and does the work, until the context ends or one of the two fails. Metrics and health are
// served until the work has wound up, so that others see that the process is no longer ready.
func (p *process) run(ctx context.Context, address string, profiling bool, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	observed, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	handler := withReadiness(observation(p.reg, profiling, p.checks...), p.readiness)
	g.Go(func() error { return serve(observed, p.log, address, handler) })
	g.Go(func() error {
		defer ended()
		return work(ctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	p.log.Info("Ended")
	return nil
}

// every calls do at once and then once per interval until ctx ends, with the present time. A round that takes longer than
// the interval delays the next one to the next whole interval: rounds never overlap and are never made up for.
func every(ctx context.Context, interval time.Duration, do func(context.Context, time.Time)) {
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
