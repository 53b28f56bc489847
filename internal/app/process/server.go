// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health tells whether a loop is alive: unhealthy when its last activity lies too far back. A loop that has not
// started yet (a standby that waits for its lease) is healthy.
type Health struct {
	window    time.Duration
	last      atomic.Pointer[time.Time] // with its monotonic reading, so that a wall clock that is set changes nothing; nil: not armed
	succeeded prometheus.Gauge          // when a pass was last complete, unix seconds; nil: not published
	failures  prometheus.Counter        // objects that were skipped because of an internal error; nil: not published
}

// NewHealth returns a check that fails when nothing was active for the window.
func NewHealth(window time.Duration) *Health { return &Health{window: window} }

// Active notes activity: that a pass begins, and within it each step that makes progress, so that a long pass is alive and
// one that hangs is not.
func (h *Health) Active(now time.Time) { h.last.Store(&now) }

// Completed notes that a pass did all that it should.
func (h *Health) Completed(now time.Time) {
	h.Active(now)
	if h.succeeded != nil {
		h.succeeded.Set(float64(now.UnixMilli()) / 1000)
	}
}

// Disarm makes the check pass until the next activity.
func (h *Health) Disarm() { h.last.Store(nil) }

// Problem says what is wrong, or nil.
func (h *Health) Problem(now time.Time) error {
	last := h.last.Load()
	if last == nil {
		return nil
	}
	if d := now.Sub(*last); d > h.window {
		return fmt.Errorf("last activity more than %s ago", d)
	}
	return nil
}

// observation serves /metrics, /health-check and, when asked for, /debug/pprof.
func observation(reg *prometheus.Registry, profiling bool, checks ...*Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	mux.HandleFunc("/health-check", func(w http.ResponseWriter, _ *http.Request) {
		for _, c := range checks {
			if err := c.Problem(time.Now()); err != nil {
				http.Error(w, "Error: "+err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = w.Write([]byte("OK"))
	})
	if profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// withReadiness serves /readyz besides: a process is ready when no check fails. /health-check says whether it should be
// restarted, /readyz whether others should send it work.
func withReadiness(observed http.Handler, checks []func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", observed)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		for _, ready := range checks {
			if err := ready(); err != nil {
				http.Error(w, "Not ready: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("OK"))
	})
	return mux
}

// serve runs an HTTP server on an address until ctx ends, then lets requests finish for a few seconds.
func serve(ctx context.Context, log *slog.Logger, address string, h http.Handler) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on --address %s: %w", address, err)
	}
	log.Info("Serving metrics and health", "address", l.Addr().String())
	return serveOn(ctx, l, &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	})
}

func serveOn(ctx context.Context, l net.Listener, srv *http.Server) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := srv.Shutdown(grace)
	if e := <-done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
