// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"math/bits"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// newRegistry returns the process's one registry, with the runtime's own figures and the client's requests.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Number of HTTP requests, by status code, method and host.",
	}, []string{"code", "method", "host"})
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rest_client_request_duration_seconds", Help: "Duration of HTTP requests, by verb and host.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
	}, []string{"verb", "host"})
	throttle := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rest_client_rate_limiter_duration_seconds", Help: "Time that requests waited for the client-side rate limiter, by verb and host.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
	}, []string{"verb", "host"})
	reg.MustRegister(requests, latency, throttle)
	clientmetrics.RequestResult = clientCounter{requests}
	clientmetrics.RequestLatency = clientLatency{latency}
	clientmetrics.RateLimiterLatency = clientLatency{throttle}
	return reg
}

type clientCounter struct{ v *prometheus.CounterVec }

// Increment implements client-go's ResultMetric.
func (c clientCounter) Increment(_ context.Context, code, method, host string) {
	c.v.WithLabelValues(code, method, host).Inc()
}

type clientLatency struct{ v *prometheus.HistogramVec }

// Observe implements client-go's LatencyMetric.
func (c clientLatency) Observe(_ context.Context, verb string, u url.URL, d time.Duration) {
	c.v.WithLabelValues(verb, u.Host).Observe(d.Seconds())
}

// ExecutionLatency returns the metric of how long the steps of a pass take.
func ExecutionLatency(namespace, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "execution_latency_seconds", Help: help,
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})
}

// A Stopwatch measures the steps of one pass.
type Stopwatch struct {
	v           *prometheus.HistogramVec
	start, last time.Time
	Health      *Health // is told that each step ended; nil: nobody
}

// NewStopwatch starts to measure a pass.
func NewStopwatch(v *prometheus.HistogramVec) *Stopwatch {
	now := time.Now()
	return &Stopwatch{v: v, start: now, last: now}
}

// Step notes that a step ended.
func (s *Stopwatch) Step(name string) {
	now := time.Now()
	s.v.WithLabelValues(name).Observe(now.Sub(s.last).Seconds())
	s.last = now
	if s.Health != nil {
		s.Health.Active(now)
	}
}

// Total notes that the pass ended, and returns how long it took.
func (s *Stopwatch) Total() time.Duration {
	d := time.Since(s.start)
	s.v.WithLabelValues("total").Observe(d.Seconds())
	return d
}

// maxSizeLog2 is the last class of autoscaler sizes: 2^20 pods and more.
const maxSizeLog2 = 20

// SizeLog2 returns the class of an autoscaler by its number of pods: the whole part of log2, 20 at most.
func SizeLog2(pods int) string {
	if pods <= 0 {
		return "0"
	}
	return strconv.Itoa(min(bits.Len(uint(pods))-1, maxSizeLog2))
}

// A Tally is a gauge that is counted anew in each pass, by label values.
type Tally struct {
	gauge *prometheus.GaugeVec
	count map[[2]string]int
}

// NewTally starts a count. What is not counted again in this pass disappears.
func NewTally(g *prometheus.GaugeVec) *Tally { return &Tally{gauge: g, count: map[[2]string]int{}} }

// Add counts n more of a class of sizes and a mode.
func (t *Tally) Add(size, mode string, n int) { t.count[[2]string{size, mode}] += n }

// Publish sets the gauge to what was counted. Without modes there is a value for every class of sizes, as upstream has it.
func (t *Tally) Publish(withMode bool) {
	t.gauge.Reset()
	if !withMode {
		for class := range maxSizeLog2 {
			t.count[[2]string{strconv.Itoa(class), ""}] += 0
		}
	}
	for k, n := range t.count {
		if withMode {
			t.gauge.WithLabelValues(k[0], k[1]).Set(float64(n))
		} else {
			t.gauge.WithLabelValues(k[0]).Set(float64(n))
		}
	}
}
