// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// ExecutionLatency returns the metric of the durations of the steps of a pass.
func ExecutionLatency(namespace, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
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
	if pods <= 0 {
		return "0"
	}
	return strconv.Itoa(min(bits.Len(uint(pods))-1, maxSizeLog2))
}
