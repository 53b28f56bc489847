// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// newRegistry returns a registry with the metrics of the Go runtime, of the operating system process and of the Kubernetes client.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(clientCollectors()...)
	return reg
}

// clientCollectors returns the metrics of all Kubernetes clients in the operating system process. client-go has one set of
// hooks per process and accepts one registration, so the metrics exist once, and each registry serves the same values.
var clientCollectors = sync.OnceValue(func() []prometheus.Collector {
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
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult: clientCounter{requests}, RequestLatency: clientLatency{latency}, RateLimiterLatency: clientLatency{throttle},
	})
	return []prometheus.Collector{requests, latency, throttle}
})

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
