// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
)

// Metrics publish the capacity plan.
type Metrics struct {
	capacity, withoutLargest, requested, recoverable, largestPod *process.SnapshotGauge
	reaches, reachesLatest, order, available, growth             *process.SnapshotGauge
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *process.SnapshotGauge {
		return process.NewSnapshotGauge(reg, "podfit_capacity", name, help, append([]string{"pool", "resource"}, labels...)...)
	}
	return &Metrics{
		capacity:       gauge("total", "Capacity of the schedulable nodes of a pool, in cores or bytes."),
		withoutLargest: gauge("without_largest_node", "Capacity of a pool without its largest node, in cores or bytes."),
		requested:      gauge("requested", "Requests of the pods of a pool, with pending pods, in cores or bytes."),
		recoverable:    gauge("recoverable", "Requests above recommended ones in a pool, in cores or bytes."),
		largestPod:     gauge("largest_pod", "Largest request of a pod that still fits on a node of a pool, in cores or bytes."),
		reaches:        gauge("reaches_threshold_timestamp_seconds", "First day on which the requests of a pool may reach a share of its capacity, as Unix time. Absent without a forecast, or if they do not within it.", "percent"),
		reachesLatest:  gauge("reaches_threshold_latest_timestamp_seconds", "End of the range of days on which the requests of a pool may reach a share of its capacity, as Unix time. Absent if they have reached it, or if the range has no end within the forecast.", "percent"),
		order:          gauge("order_by_timestamp_seconds", "Last day for an order of nodes, as Unix time. Absent if no order is needed within the forecast."),
		available:      gauge("forecast_available", "1 if there is a forecast for a pool, 0 if not."),
		growth:         gauge("growth_28d", "Change of the requests of a pool in 28 days by cause (new, gone, replicas, per_pod, other), in cores or bytes.", "cause"),
	}
}

func (m *Metrics) publish(p *capacity.Plan) {
	all := []*process.SnapshotGauge{m.capacity, m.withoutLargest, m.requested, m.recoverable, m.largestPod, m.reaches, m.reachesLatest, m.order, m.available, m.growth}
	next := make(map[*process.SnapshotGauge]*prometheus.GaugeVec, len(all))
	for _, g := range all {
		next[g] = g.Next()
	}
	for i := range p.Pools {
		for k := range p.Pools[i].Resources {
			m.set(next, p.Now, p.Pools[i].Name, &p.Pools[i].Resources[k])
		}
	}
	for _, g := range all {
		g.Publish(next[g])
	}
}

// set sets the values of a resource of a pool.
func (m *Metrics) set(next map[*process.SnapshotGauge]*prometheus.GaugeVec, now time.Time, pool string, r *capacity.ResourcePlan) {
	name := r.Resource.String()
	set := func(g *process.SnapshotGauge, v int64) {
		next[g].WithLabelValues(pool, name).Set(r.Resource.InUnits(v))
	}
	set(m.capacity, r.Capacity)
	set(m.withoutLargest, r.WithoutLargest)
	set(m.requested, r.Requested)
	set(m.recoverable, r.Recoverable)
	set(m.largestPod, r.Fit.Free.Amount(r.Resource))
	next[m.available].WithLabelValues(pool, name).Set(0)
	if r.Outlook.Shortage == capacity.NoShortage {
		next[m.available].WithLabelValues(pool, name).Set(1)
	}
	for _, c := range r.Outlook.Crossings {
		percent := strconv.Itoa(int(100*c.Threshold + 0.5))
		day := c.Earliest // on which it is or may be reached
		if c.State == capacity.Above {
			day = min(c.Since, capacity.DayOf(now))
		}
		if day != 0 {
			next[m.reaches].WithLabelValues(pool, name, percent).Set(float64(day.Time().Unix()))
		}
		if c.State == capacity.Ahead && c.Latest != 0 {
			next[m.reachesLatest].WithLabelValues(pool, name, percent).Set(float64(c.Latest.Time().Unix()))
		}
	}
	if r.Outlook.OrderBy != 0 {
		next[m.order].WithLabelValues(pool, name).Set(float64(r.Outlook.OrderBy.Time().Unix()))
	}
	m.setGrowth(next[m.growth], pool, r)
}

func (m *Metrics) setGrowth(to *prometheus.GaugeVec, pool string, r *capacity.ResourcePlan) {
	if r.GrewDays == 0 {
		return
	}
	res := r.Resource
	g := &r.Grew
	for _, part := range []struct {
		cause string
		value int64
	}{
		{"new", g.New.Amount(res)}, {"gone", g.Gone.Amount(res)}, {"replicas", g.Replicas.Amount(res)}, {"per_pod", g.PerPod.Amount(res)},
		{"other", r.GrewTotal - g.Explained(res)},
	} {
		to.WithLabelValues(pool, res.String(), part.cause).Set(res.InUnits(part.value))
	}
}
