// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestReadyz_failingCheck_returnsReason(t *testing.T) {
	var problem error
	p := &Process{Registry: prometheus.NewRegistry(), Readiness: []func() error{
		func() error { return nil },
		func() error { return problem },
	}}
	h := p.observation(false)
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if status, text := ask("/readyz"); status != http.StatusOK || text != "OK" {
		t.Errorf("ready: got status %d, %s", status, text)
	}
	problem = errors.New("the webhook is not registered yet")
	if status, text := ask("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, problem.Error()) {
		t.Errorf("not ready: got status %d, %s", status, text)
	}
	if status, _ := ask("/health-check"); status != http.StatusOK {
		t.Errorf("not ready: got status %d from /health-check, want 200, because the process must not be restarted", status)
	}
}

func TestProcess_workEnding_stillServesReadyz(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &Process{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	ctx, stop := context.WithCancel(t.Context())
	p.Readiness = append(p.Readiness, func() error { return ctx.Err() })
	get := func() (int, error) {
		r, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return 0, err
		}
		return r.StatusCode, r.Body.Close()
	}
	status := 0
	err = p.run(ctx, address, false, func(ctx context.Context) error {
		for status != http.StatusOK && ctx.Err() == nil { // until it listens
			status, _ = get()
		}
		stop()
		<-ctx.Done()
		var err error
		status, err = get()
		return err
	})
	if err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the work ends: got status %d, %v", status, err)
	}
}
