// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"

	"podfit.dev/podfit/internal/edge/kube/feed"
)

// Metrics are the metrics that every long-running command has.
type Metrics struct {
	Leading     prometheus.Gauge
	Transitions prometheus.Counter
	LastSuccess *prometheus.GaugeVec
	Failures    *prometheus.CounterVec
}

// NewMetrics registers the metrics of a process.
func NewMetrics(reg prometheus.Registerer) Metrics {
	auto := promauto.With(reg)
	return Metrics{
		Leading: auto.NewGauge(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "leader", Help: "1 while this process is the leader, else 0. Always 1 without --leader-elect.",
		}),
		Transitions: auto.NewCounter(prometheus.CounterOpts{
			Namespace: "podfit", Name: "leader_transitions_total", Help: "Number of times that this process started or stopped leading.",
		}),
		LastSuccess: auto.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "podfit", Name: "pass_last_success_timestamp_seconds",
			Help: "Unix time of the last complete pass of a loop. A recommender pass without usage data and an updater pass that was skipped or stopped early do not count.",
		}, []string{"loop"}),
		Failures: NewCounter(reg, "podfit", "pass_failures_total",
			"Number of passes that ended with an internal error, plus number of objects that were skipped because of an internal error.", "loop"),
	}
}

// WatchMetrics reads the state of each watch when it is asked for.
type WatchMetrics struct {
	world               interface{ Health() []feed.State }
	lastResponse, stale *prometheus.Desc
}

// NewWatchMetrics returns the metrics of the watches of a world.
func NewWatchMetrics(world interface{ Health() []feed.State }) *WatchMetrics {
	return &WatchMetrics{
		world: world,
		lastResponse: prometheus.NewDesc("podfit_watch_last_response_timestamp_seconds",
			"Unix time of the last response or watch event of the API server for a watched resource. A watch without changes receives a bookmark about once per minute.",
			[]string{"resource"}, nil),
		stale: prometheus.NewDesc("podfit_watch_stale",
			"1 while a watched resource may be out of date, else 0. While a resource other than events is stale, the updater changes no pods.", []string{"resource"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *WatchMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.lastResponse; ch <- m.stale }

// Collect implements prometheus.Collector.
func (m *WatchMetrics) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, s := range m.world.Health() {
		if !s.LastResponse.IsZero() {
			ch <- prometheus.MustNewConstMetric(m.lastResponse, prometheus.GaugeValue, float64(s.LastResponse.UnixMilli())/1000, s.Resource)
		}
		stale := 0.0
		if s.IsStale(now) {
			stale = 1
		}
		ch <- prometheus.MustNewConstMetric(m.stale, prometheus.GaugeValue, stale, s.Resource)
	}
}

// Attempt runs a function for one object of a pass. If it panics, which is a defect of podfit, Attempt logs and counts the panic, the
// object is skipped, and the pass continues with the other objects.
func Attempt(log *slog.Logger, h *Health, object string, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			Skipped(log, h, object, cause, string(debug.Stack()))
		}
	}()
	do()
}

// ErrInternal is an error because of a panic.
var ErrInternal = errors.New("an internal error, which is a defect of podfit; the log has the cause")

// Try is Attempt for a function that may fail. If it panics, Try returns ErrInternal.
func Try(log *slog.Logger, h *Health, object string, do func() error) error {
	err := ErrInternal
	Attempt(log, h, object, func() { err = do() })
	return err
}

// Each calls do for each item, at most limit of them at the same time, and waits until all calls have returned.
func Each[T any](limit int, items []T, do func(T)) {
	workqueue.ParallelizeUntil(context.Background(), limit, len(items), func(i int) { do(items[i]) })
}

// Skipped logs that an object was skipped because of a panic, and counts it unless h is nil. stack is the stack at the panic.
func Skipped(log *slog.Logger, h *Health, object string, cause any, stack string) {
	if h != nil && h.failures != nil {
		h.failures.Inc()
	}
	log.Error("Skipped an object because of an internal error", slog.String("object", object), slog.Any("panic", cause), slog.String("stack", stack))
}

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

// ExecutionLatency registers the metric of the durations of the steps of a pass.
func ExecutionLatency(reg prometheus.Registerer, namespace, help string) *prometheus.HistogramVec {
	return promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "execution_latency_seconds", Help: help,
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})
}

// NewCounter registers a counter with labels.
func NewCounter(reg prometheus.Registerer, namespace, name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// A Stopwatch measures the steps of one pass.
type Stopwatch struct {
	v           *prometheus.HistogramVec
	start, last time.Time
	Health      *Health // records activity at the end of each step; nil: not recorded
}

// NewStopwatch starts the measurement of a pass.
func NewStopwatch(v *prometheus.HistogramVec) *Stopwatch {
	now := time.Now()
	return &Stopwatch{v: v, start: now, last: now}
}

// Step records the duration of the step that ends now.
func (s *Stopwatch) Step(name string) {
	now := time.Now()
	s.v.WithLabelValues(name).Observe(now.Sub(s.last).Seconds())
	s.last = now
	if s.Health != nil {
		s.Health.Active(now)
	}
}

// Total records and returns the duration of the pass, which ends now.
func (s *Stopwatch) Total() time.Duration {
	d := time.Since(s.start)
	s.v.WithLabelValues("total").Observe(d.Seconds())
	return d
}

// maxSizeLog2 is the highest size class of a VPA: 2^20 pods and more.
const maxSizeLog2 = 20

// SizeLog2 returns the size class of a VPA: log2 of its number of pods, rounded down, at most 20.
func SizeLog2(pods int) string {
	return strconv.Itoa(min(bits.Len(uint(max(pods, 1)))-1, maxSizeLog2))
}

// A SnapshotGauge is a gauge vector whose values are replaced all at once. A scrape sees all values of one pass, and never
// a part of them.
type SnapshotGauge struct {
	options prometheus.GaugeOpts
	labels  []string
	current atomic.Pointer[prometheus.GaugeVec]
}

// NewSnapshotGauge registers a gauge vector without values.
func NewSnapshotGauge(reg prometheus.Registerer, namespace, name, help string, labels ...string) *SnapshotGauge {
	g := &SnapshotGauge{options: prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels: labels}
	g.Publish(g.Next())
	reg.MustRegister(g)
	return g
}

// Next returns an empty set of values. Scrapes do not see it before it is passed to Publish.
func (g *SnapshotGauge) Next() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(g.options, g.labels)
}

// Publish replaces all values by those of next, which must come from Next.
func (g *SnapshotGauge) Publish(next *prometheus.GaugeVec) { g.current.Store(next) }

// WithLabelValues returns the published gauge with the given label values.
func (g *SnapshotGauge) WithLabelValues(values ...string) prometheus.Gauge {
	return g.current.Load().WithLabelValues(values...)
}

// Describe implements prometheus.Collector.
func (g *SnapshotGauge) Describe(ch chan<- *prometheus.Desc) { g.current.Load().Describe(ch) }

// Collect implements prometheus.Collector.
func (g *SnapshotGauge) Collect(ch chan<- prometheus.Metric) { g.current.Load().Collect(ch) }

// A Tally counts the values of a gauge in one pass, by size class and update mode.
type Tally struct {
	gauge *SnapshotGauge
	count map[[2]string]int
}

// NewTally starts to count. Values that are not counted again in this pass are removed by Publish.
func NewTally(g *SnapshotGauge) *Tally { return &Tally{gauge: g, count: map[[2]string]int{}} }

// Add adds n to the count of a size class and an update mode.
func (t *Tally) Add(size, mode string, n int) { t.count[[2]string{size, mode}] += n }

// Publish replaces the values of the gauge by the counts. A gauge without a label for the update mode gets a value for each size class,
// as in upstream.
func (t *Tally) Publish() {
	next := t.gauge.Next()
	labels := len(t.gauge.labels)
	if labels == 1 {
		for class := range maxSizeLog2 {
			next.WithLabelValues(strconv.Itoa(class)).Set(0)
		}
	}
	for k, n := range t.count {
		next.WithLabelValues(k[:labels]...).Set(float64(n))
	}
	t.gauge.Publish(next)
}
