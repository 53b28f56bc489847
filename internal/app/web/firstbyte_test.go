// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/edge/web"
)

// firstByte sends a request and returns the time until the first byte of the response, and the size of its body as it was sent.
func firstByte(b *testing.B, client *http.Client, address string) (took time.Duration, size int64) {
	b.Helper()
	var at time.Time
	ctx := httptrace.WithClientTrace(b.Context(), &httptrace.ClientTrace{GotFirstResponseByte: func() { at = time.Now() }})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	began := time.Now()
	a, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Body.Close()
	if size, err = io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d, error %v", address, a.StatusCode, err)
	}
	return at.Sub(began), size
}

// largePage returns a page of a large cluster.
func largePage(workloads, podsEach int) (*source, http.Handler) {
	l := newLarge(workloads, podsEach)
	s := newSource(&source{world: l, usage: l.Read, events: l.RecentEvents, store: &l.fake, archive: &l.fake, registrations: l.Registrations, allPods: true, log: slog.New(slog.DiscardHandler)})
	return s, web.New(web.Config{Source: s})
}

// BenchmarkPage_firstByte measures the time until the first byte of each page arrives over HTTP, for a cluster of 10,000 workloads with 100,000
// pods. In the first view, nothing is computed yet; in the others the overview is computed again every five seconds, as podfit does it.
func BenchmarkPage_firstByte(b *testing.B) {
	s, handler := largePage(10_000, 10)
	server := httptest.NewServer(handler)
	defer server.Close()
	b.Run("first view", func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			s.state.mu.Lock()
			s.state.at, s.state.read = time.Time{}, time.Time{}
			s.state.mu.Unlock()
			took, _ := firstByte(b, server.Client(), server.URL+"/")
			all = append(all, took)
		}
		reportTimes(b, all)
	})
	for name, path := range map[string]string{
		"overview": "/", "workloads": "/workloads", "last page": "/workloads?page=100&sort=memory", "search": "/workloads?q=service-0999&sort=savings",
		"workload": "/workloads/team-000/Deployment/service-00000", "nodes": "/nodes", "activity": "/activity", "JSON": "/workloads?format=json",
	} {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			var size int64
			for b.Loop() {
				took, n := firstByte(b, server.Client(), server.URL+path)
				all = append(all, took)
				size = n
			}
			reportTimes(b, all)
			b.ReportMetric(float64(size)/1024, "gzip-KiB")
		})
	}
}

// A page of a cluster with ten times the workloads allocates no more, because it renders at most 100 rows of an overview that is computed once.
func TestPage_tenTimesTheWorkloads_rendersWithTheSameAllocations(t *testing.T) {
	allocations := func(workloads int, path string) float64 {
		s, handler := largePage(workloads, 2)
		visit := func() {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%s: status %d", path, w.Code)
			}
		}
		visit()
		s.surplus.mu.Lock()
		running := s.surplus.running
		s.surplus.mu.Unlock()
		if running != nil {
			<-running
		}
		visit()
		s.state.mu.Lock()
		s.state.at = time.Now().Add(time.Hour) // it is not computed again during the measurement
		s.state.mu.Unlock()
		return testing.AllocsPerRun(5, visit)
	}
	for _, path := range []string{"/", "/workloads", "/nodes"} {
		if few, many := allocations(1000, path), allocations(10_000, path); many > 1.2*few+200 {
			t.Errorf("%s: %.0f allocations with 10,000 workloads, %.0f with 1,000", path, many, few)
		}
	}
}

// mostTime is how long the first byte may take. The benchmark compares it with the median, because the 99th percentile depends on what else the
// machine does.
const mostTime = 100 * time.Millisecond

// reportTimes reports the median, the 99th percentile and the maximum.
func reportTimes(b *testing.B, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	if median := all[len(all)/2]; median > mostTime {
		b.Errorf("the median of the first byte is %v, want at most %v", median, mostTime)
	}
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"max-ms", 1}} {
		b.ReportMetric(float64(all[int(q.share*float64(len(all)-1))].Microseconds())/1000, q.name)
	}
}
