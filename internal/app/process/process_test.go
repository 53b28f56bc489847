// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/edge/kube/feed"
)

func TestEvery_longPass_nextGetsCurrentTimeAndMissedTicksAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute+30*time.Second)
		defer cancel()
		began := time.Now()
		var starts []time.Duration
		Every(ctx, time.Minute, func(_ context.Context, now time.Time) {
			if late := time.Since(now); late != 0 {
				t.Errorf("call %d: got a time that is %s ago, want the current time", len(starts), late)
			}
			starts = append(starts, now.Sub(began))
			if len(starts) == 2 {
				time.Sleep(170 * time.Second) // longer than two ticks
			}
		})
		want := "[0s 1m0s 4m0s 5m0s 6m0s 7m0s 8m0s 9m0s]"
		if got := fmt.Sprint(starts); got != want {
			t.Errorf("calls began at %s, want %s", got, want)
		}
	})
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestRecovering_panic_isCountedAndLoopContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := New(slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry())
		passes := 0
		Every(contextFor(t, 150*time.Second), time.Minute, p.Recovering("updater", func(context.Context, time.Time) {
			if passes++; passes == 2 {
				panic("nobody expected this")
			}
		}))
		if failed := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); passes != 3 || failed != 1 {
			t.Errorf("got %d passes and %v failures", passes, failed)
		}
		if !strings.Contains(out.String(), "nobody expected this") || !strings.Contains(out.String(), "process_test.go") {
			t.Errorf("the log has no stack: %s", out.String())
		}
	})
}

type fixedHealth []feed.State

func (h fixedHealth) Health() []feed.State { return h }

func TestWatchMetrics_feedStates_areLastResponseAndStaleness(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	m := NewWatchMetrics(fixedHealth{{Resource: "pods", LastResponse: at}, {Resource: "nodes", Forbidden: true}})
	want := `
# HELP podfit_watch_last_response_timestamp_seconds Unix time of the last response or watch event of the API server for a watched resource. A watch without changes receives a bookmark about once per minute.
# TYPE podfit_watch_last_response_timestamp_seconds gauge
podfit_watch_last_response_timestamp_seconds{resource="pods"} 1.7e+09
# HELP podfit_watch_stale 1 while a watched resource may be out of date, else 0. While a resource other than events is stale, the updater changes no pods.
# TYPE podfit_watch_stale gauge
podfit_watch_stale{resource="nodes"} 0
podfit_watch_stale{resource="pods"} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
