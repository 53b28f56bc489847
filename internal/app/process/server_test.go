// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHealth_loopWithoutActivity_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(5 * time.Minute)
		srv := (&Process{Registry: prometheus.NewRegistry(), checks: []*Health{h}}).observation(false)
		ask := func() (int, string) {
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/health-check", nil))
			return w.Code, w.Body.String()
		}
		time.Sleep(time.Hour)
		if code, _ := ask(); code != 200 {
			t.Errorf("loop has not started: got status %d", code)
		}
		h.Active(time.Now())
		time.Sleep(4 * time.Minute)
		if code, _ := ask(); code != 200 {
			t.Errorf("after 4 minutes: got status %d", code)
		}
		time.Sleep(2 * time.Minute)
		if code, text := ask(); code != 500 || !strings.Contains(text, "Error: last activity more than 6m0s ago") {
			t.Errorf("after 6 minutes: got status %d, %q", code, text)
		}
		h.Disarm()
		if code, _ := ask(); code != 200 {
			t.Errorf("loop ended because the lease was lost: got status %d", code)
		}
	})
}

func TestSizeLog2_anyPodCount_isAtMost20(t *testing.T) {
	for pods, want := range map[int]string{-1: "0", 0: "0", 1: "0", 2: "1", 3: "1", 4: "2", 1023: "9", 1024: "10", 1 << 20: "20", 1 << 25: "20"} {
		if got := SizeLog2(pods); got != want { // W-25: the last class is within the table
			t.Errorf("%d pods: class %s, want %s", pods, got, want)
		}
	}
}

func TestObservation_profilingFlag_controlsPprof(t *testing.T) {
	for flag, want := range map[string]int{"--profiling": http.StatusOK, "--profiling=false": http.StatusNotFound} {
		h := (&Process{Registry: prometheus.NewRegistry()}).observation(commonGiven(t, flag).Profiling)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/cmdline", nil))
		if w.Code != want {
			t.Errorf("%s: got status %d", flag, w.Code)
		}
	}
}
