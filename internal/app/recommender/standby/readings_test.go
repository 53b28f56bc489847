// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package standby

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
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

// A taken reading may be left before its end.
func TestReadings_take_mayStopEarly(t *testing.T) {
	r := Of(func(context.Context) ([]usage.Sample, error) {
		return []usage.Sample{{Container: "app", At: time.Now()}}, nil
	}, slog.New(slog.DiscardHandler))
	r.Add(t.Context(), time.Now())
	r.Add(t.Context(), time.Now())
	n := 0
	for range r.Take() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d readings", n)
	}
}

// The samples are those of the Metrics API.
func TestNew_metricsAPI_samplesAreRead(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"namespace":"shop","name":"web-0"},
			"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[{"name":"app","usage":{"cpu":"250m","memory":"64Mi"}}]}]}`)
	}))
	defer api.Close()
	clients, err := kube.ClientsFor(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(clients, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.Add(t.Context(), time.Now())
	for samples := range r.Take() {
		want := usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: "web-0"}, Container: "app", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), CPU: 0.25, Memory: 64 << 20, Has: cluster.Both, Earlier: true}
		if len(samples) != 1 || samples[0] != want {
			t.Errorf("got %+v, want %+v", samples, want)
		}
		return
	}
	t.Error("nothing was read")
}
