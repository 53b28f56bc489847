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
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health is the health check of a loop. It fails if the last activity is too long ago. A loop that has not started yet, for
// example because another replica is the leader, is healthy.
type Health struct {
	loop      string
	window    time.Duration
	passed    atomic.Pointer[time.Time] // when the last pass was complete; nil: none was
	last      atomic.Pointer[time.Time] // with its monotonic reading, so that changes of the wall clock have no effect; nil: not started
	succeeded prometheus.Gauge          // Unix time of the last complete pass; nil: not published
	failures  prometheus.Counter        // objects that were skipped because of an internal error; nil: not published
}

// NewHealth returns a check that fails if there is no activity for the window.
func NewHealth(window time.Duration) *Health { return &Health{window: window} }

// Active records activity. Loops call it at the start of a pass and after each step, so that a long pass is healthy and a
// hanging pass is not.
func (h *Health) Active(now time.Time) { h.last.Store(&now) }

// Completed records activity and the time of a complete pass.
func (h *Health) Completed(now time.Time) {
	h.Active(now)
	h.passed.Store(&now)
	if h.succeeded != nil {
		h.succeeded.Set(float64(now.UnixMilli()) / 1000)
	}
}

// Disarm makes the check pass until the next activity.
func (h *Health) Disarm() { h.last.Store(nil) }

// Problem returns why the check fails, or nil.
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

// observation serves /metrics, /health-check, which liveness probes use, /readyz, which readiness probes use, and, if profiling is true,
// /debug/pprof.
func (p *Process) observation(profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{Registry: p.Registry}))
	mux.HandleFunc("/health-check", func(w http.ResponseWriter, _ *http.Request) {
		for _, c := range p.checks {
			if err := c.Problem(time.Now()); err != nil {
				http.Error(w, "Error: "+err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = w.Write([]byte("OK"))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		for _, ready := range p.Readiness {
			if err := ready(); err != nil {
				http.Error(w, "Not ready: "+err.Error(), http.StatusServiceUnavailable)
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

// serve runs an HTTP server on an address until ctx ends, and then waits a few seconds for open requests.
func serve(ctx context.Context, log *slog.Logger, address string, h http.Handler) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return ListenError("--address", address, err)
	}
	log.Info("Serving metrics and health", slog.String("address", l.Addr().String()))
	return Serve(ctx, l, &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	})
}

// Serve runs an HTTP server on a listener until ctx ends, and then waits a few seconds for open requests. It ends those that take longer.
func Serve(ctx context.Context, l net.Listener, srv *http.Server) error {
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
	if grace.Err() != nil {
		err = srv.Close() // the requests that are still open end with an error, and podfit with none
	}
	if e := <-done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// loopback returns an address with the port of another one, at which only this machine can connect. In a pod, probes and Prometheus connect
// from elsewhere.
func loopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// ListenError returns the error of listening on the address of a flag, with the remedy.
func ListenError(flag, address string, err error) error {
	var invalid *net.AddrError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s %s: another process uses this port; end it, or choose another port with %s (%w)", flag, address, flag, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listen on %s %s: this user may not use this port; choose a port from 1024 on with %s (%w)", flag, address, flag, err)
	case errors.As(err, &invalid):
		return fmt.Errorf("%s must be an address such as :8942 or 127.0.0.1:8942, got %q (%w)", flag, address, err)
	}
	return fmt.Errorf("listen on %s %s: %w", flag, address, err)
}
