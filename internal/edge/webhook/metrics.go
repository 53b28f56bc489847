// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Label values: the result of a review, and the kind of its object.
const (
	resultError   = "error"
	resultSkipped = "skipped"
	resultApplied = "applied"

	aboutUnknown    = "unknown"
	aboutPod        = "Pod"
	aboutAutoscaler = "VPA"
)

// Label values: why a request was not reviewed.
const (
	refusedTooLarge   = "too large"
	refusedBusy       = "busy"
	refusedUnreadable = "unreadable"
)

// Label values: why a pod was admitted without its recommendation.
const (
	UnsizedOwnerUnknown   = "owner unknown"
	UnsizedTooManyWaiting = "too many waiting"
)

// Metrics are the metrics of the webhook.
type Metrics struct {
	applied, untouched prometheus.Counter
	latency            *prometheus.HistogramVec
	refused, unchecked *prometheus.CounterVec
	unsized            *prometheus.CounterVec
	expiry             prometheus.Gauge
	registered         prometheus.Gauge
	ready              *atomic.Pointer[replica]

	read, admit, build, write, total prometheus.Observer
}

// NewMetrics creates and registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const namespace = "vpa_admission_controller"
	const own = "podfit_admission_controller"
	auto := promauto.With(r)
	counter := func(namespace, name, help, label string, values ...string) *prometheus.CounterVec {
		v := auto.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Namespace: own, Name: name, Help: help})
	}
	pods := counter(namespace, "admission_pods_total", "Number of pods that the webhook reviewed, by whether it changed them.", "applied")
	latency := auto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "admission_latency_seconds", Help: "Duration of admission reviews.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300},
	}, []string{"status", "resource"})
	steps := auto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "execution_latency_seconds", Help: "Duration of each step of an admission review.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})
	refused := counter(own, "refused_reviews_total", "Number of admission requests that the webhook rejected without a review, by reason. "+
		"The failure policy decides whether the object is admitted.", "reason", refusedTooLarge, refusedBusy, refusedUnreadable)
	unchecked := counter(own, "unchecked_objects_total", "Number of objects that were admitted unchanged because they exceed a size limit of podfit, by limit.",
		"reason", tooManyContainers, tooManyOwners, tooManyValues, tooLongName)
	unsized := counter(own, "unsized_pods_total", "Number of pods that were admitted unchanged because their controller was not known, by reason: owner unknown "+
		"when it did not become known in time, too many waiting when too many reviews waited for controllers.", "reason", UnsizedOwnerUnknown, UnsizedTooManyWaiting)
	expiry := gauge("certificate_expiry_timestamp_seconds", "Unix time at which the serving certificate of the webhook expires. 0 if there is no certificate.")
	registered := gauge("registered", "1 if the webhook configuration was correct at the last check, else 0. Always 0 with --register-webhook=false.")
	ready := new(atomic.Pointer[replica])
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: own, Name: "ready", Help: "1 if the replica is ready to serve admission reviews, as reported by /readyz, else 0.",
	}, func() float64 {
		r := ready.Load()
		return oneIf(r != nil && (*r).Ready() == nil)
	})
	return &Metrics{
		applied:   pods.WithLabelValues("true"),
		untouched: pods.WithLabelValues("false"),
		latency:   latency,
		refused:   refused, unchecked: unchecked, unsized: unsized, expiry: expiry, registered: registered, ready: ready,
		read:  steps.WithLabelValues("read_request"),
		admit: steps.WithLabelValues("admit"),
		build: steps.WithLabelValues("build_response"),
		write: steps.WithLabelValues("write_response"),
		total: steps.WithLabelValues("total"),
	}
}

// A replica is a process that serves admission reviews.
type replica interface {
	Ready() error // why it is not ready, or nil
}

// Watch sets the replica of the metric ready. Without a replica the metric is 0.
func (m *Metrics) Watch(r replica) { m.ready.Store(&r) }

// Unsized counts a pod that was admitted unchanged because its controller was not known.
func (m *Metrics) Unsized(reason string) { m.unsized.WithLabelValues(reason).Inc() }

// A stopwatch measures the duration of the steps of one review.
type stopwatch struct {
	m           *Metrics
	begin, last time.Time
}

func (m *Metrics) start() stopwatch {
	now := time.Now()
	return stopwatch{m: m, begin: now, last: now}
}

// step records the time since the previous step.
func (w *stopwatch) step(o prometheus.Observer) {
	now := time.Now()
	o.Observe(now.Sub(w.last).Seconds())
	w.last = now
}

// done records the duration and the result of the review.
func (w *stopwatch) done(result, about string) {
	d := time.Since(w.begin).Seconds()
	w.m.total.Observe(d)
	w.m.latency.WithLabelValues(result, about).Observe(d)
	if about != aboutPod || result == resultError {
		return
	}
	if result == resultApplied {
		w.m.applied.Inc()
	} else {
		w.m.untouched.Inc()
	}
}
