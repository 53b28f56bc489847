// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package standby

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A process that leads reads nothing here. Readings are of the last 15 minutes, also if the clock jumps, a failure is logged once, and a panic ends nothing.
func TestReadings_run_keepsTheLastMinutesWhileAnotherReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		web := cluster.Key{Namespace: "shop", Name: "web-0"}
		var reads atomic.Int64
		var fails, panics atomic.Bool
		r := Of(func(context.Context) ([]usage.Sample, error) {
			n := reads.Add(1)
			if panics.Load() {
				panic("a defect")
			}
			if fails.Load() {
				return nil, errors.New("away")
			}
			return []usage.Sample{{Pod: web, Container: "app", CPU: float64(n)}}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx, p, time.Minute) }()
		after := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		after(30 * time.Minute)
		fails.Store(true)
		after(2*time.Minute + time.Second)
		fails.Store(false)
		panics.Store(true)
		after(time.Minute)
		panics.Store(false)
		after(time.Minute)
		taken := func() (out []usage.Sample) {
			for samples := range r.Take() {
				out = append(out, samples...)
			}
			return out
		}
		kept := taken()
		if len(kept) != 12 && len(kept) != 13 || kept[len(kept)-1].CPU != float64(reads.Load()) || kept[0].CPU >= kept[1].CPU || kept[0].Pod != web || kept[0].Container != "app" {
			t.Errorf("%d readings of %d are kept: %v", len(kept), reads.Load(), kept)
		}
		if n := strings.Count(log.String(), "Cannot read usage"); n != 1 {
			t.Errorf("a failure was logged %d times", n)
		}
		if left := taken(); len(left) > 0 {
			t.Errorf("%d readings are kept after they were taken", len(left))
		}
		before := reads.Load()
		leading, resign := context.WithCancel(ctx)
		go func() {
			ended <- process.Lead(leading, p, process.Election{}, nil, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		after(10 * time.Minute)
		if reads.Load() != before {
			t.Errorf("%d readings while the process leads", reads.Load()-before)
		}
		resign()
		<-ended
		after(2 * time.Minute)
		if reads.Load() < before+2 {
			t.Error("no readings after the process has led")
		}
		cancel()
		<-ended
	})
}

func TestReadings_none_runWaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Readings
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := none.Run(ctx, nil, time.Minute); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// While the API server is away, no leader can store anything, so what was read before is kept. A hanging Metrics API is reported.
func TestReadings_apiServerIsAway_areKeptAndItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		away := false
		r := Of(func(ctx context.Context) ([]usage.Sample, error) {
			if away {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []usage.Sample{{Container: "app", At: time.Now()}}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		for i := range 60 {
			away = i >= 40
			r.Add(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		n := 0
		for range r.Take() {
			n++
		}
		if n < 15 || n > 17 || strings.Count(log.String(), "Cannot read usage") != 1 {
			t.Errorf("%d readings are left, want those of 15 minutes; log:\n%s", n, log.String())
		}
	})
}
