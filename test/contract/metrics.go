// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	_ "embed"
	"strings"
)

// A Metric is a Prometheus metric of upstream.
type Metric struct {
	Name    string
	Type    string   // counter, gauge or histogram
	Labels  []string // in upstream's order
	Buckets []float64
}

// The label values of upstream's metrics, in the order in which they occur in a pass.
var (
	RecommenderSteps = []string{
		"LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods", "UpdateVPAs", "MaintainCheckpoints", "GarbageCollect", "total",
	}
	UpdaterSteps   = []string{"ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods", "total"}
	AdmissionSteps = []string{"read_request", "admit", "build_response", "write_response", "total"}

	AdmissionStatuses  = []string{"error", "skipped", "applied"}
	AdmissionResources = []string{"unknown", "Pod", "VPA"}

	EvictionFailures = []string{"EvictionError", "EvictionRateLimiterWaitFailed"}
	InPlaceFailures  = []string{
		"InPlaceUpdateError", "InPlaceUpdateInfeasible", "InPlaceUpdateRateLimiterWaitFailed", "UnboostError",
	}
	ResourceSources = []string{
		"Pod.Status.ContainerStatuses", "Pod.Status.InitContainerStatuses", "Pod.Spec.Containers", "Pod.Spec.InitContainers",
	}
)

// buckets are those of upstream's histograms, by their name in the list.
var buckets = map[string][]float64{
	"step": {
		0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300,
	},
	"request": {
		0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300,
	},
	"first": {
		1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800,
	},
	"relative": {
		-1, -.75, -.5, -.25, -.1, -.05, -.025, -.01, -.005, -.0025, -.001,
		0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 10, 25, 50, 100,
	},
	"cores": doubling(0.01, 17),
	"bytes": doubling(1e6, 17),
}

// doubling returns n bucket bounds. The first is given, and each other is twice the previous one.
func doubling(first float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first
		first *= 2
	}
	return bounds
}

// metricList has a line for each metric: its name, its type, its labels in upstream's order, and the name of its buckets.
//
//go:embed metrics.txt
var metricList string

// RecommenderMetrics returns the metrics of upstream's recommender.
func RecommenderMetrics() []Metric { return metrics("recommender") }

// UpdaterMetrics returns the metrics of upstream's updater.
func UpdaterMetrics() []Metric { return metrics("updater") }

// AdmissionMetrics returns the metrics of upstream's admission controller.
func AdmissionMetrics() []Metric { return metrics("admission") }

// metrics returns the metrics in a section of the list.
func metrics(section string) (out []Metric) {
	for _, line := range linesOf(metricList, section) {
		fields := strings.Fields(line)
		m := Metric{Name: fields[0], Type: fields[1], Buckets: buckets[fields[3]]}
		if fields[2] != "-" {
			m.Labels = strings.Split(fields[2], ",")
		}
		out = append(out, m)
	}
	return out
}
