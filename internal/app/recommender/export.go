// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
)

// exportPrefix begins the names of the exported series. They are those that kube-state-metrics gives with the configuration in
// deploy/monitoring, so that boards made for it work with either.
const exportPrefix = "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_"

// An Exporter serves the recommendations of VPA objects as metrics: four amounts of two resources for each container. A scrape has the
// recommendations that were in the status of the VPA objects when the last pass began.
type Exporter struct {
	descriptions [4]*prometheus.Desc // in the order of collect
	autoscalers  atomic.Pointer[[]*cluster.Autoscaler]
}

// NewExporter registers the metrics of --export-recommendations, without series.
func NewExporter(reg prometheus.Registerer) *Exporter {
	e := &Exporter{}
	labels := []string{"namespace", "verticalpodautoscaler", "target_api_version", "target_kind", "target_name", "container", "resource", "unit"}
	for i, metric := range [4][2]string{
		{"target", "Recommended request of a container, in cores or bytes."},
		{"lowerbound", "Lower bound of the recommended request of a container, in cores or bytes."},
		{"upperbound", "Upper bound of the recommended request of a container, in cores or bytes."},
		{"uncappedtarget", "Recommended request of a container before the resource policy and other maximums apply, in cores or bytes."},
	} {
		e.descriptions[i] = prometheus.NewDesc(exportPrefix+metric[0], metric[1], labels, nil)
	}
	reg.MustRegister(e)
	return e
}

// publish replaces the exported recommendations by those of the given autoscalers. Without autoscalers, as in a replica that does not
// lead, there are no series. A nil Exporter ignores it.
func (e *Exporter) publish(all []*cluster.Autoscaler) {
	if e != nil {
		e.autoscalers.Store(&all)
	}
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range e.descriptions {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	all := e.autoscalers.Load()
	if all == nil {
		return
	}
	for _, a := range *all {
		for i := range a.Advice {
			// Another client may write a container twice. Two equal series would make the whole scrape fail.
			if i == 0 || a.Advice[i].Container != a.Advice[i-1].Container {
				e.collect(ch, a, &a.Advice[i])
			}
		}
	}
}

// collect sends the series of one container.
func (e *Exporter) collect(ch chan<- prometheus.Metric, a *cluster.Autoscaler, adv *cluster.Advice) {
	for i, amounts := range [...]cluster.Resources{adv.Target, adv.Lower, adv.Upper, adv.Uncapped} {
		for _, res := range cluster.All {
			v, ok := amounts.Get(res)
			if !ok {
				continue
			}
			m, err := prometheus.NewConstMetric(e.descriptions[i], prometheus.GaugeValue, res.InUnits(v),
				a.Namespace, a.Name, a.APIVersion, a.Target.Kind, a.Target.Name, adv.Container, res.String(), cluster.Pick(res, "core", "byte"))
			if err == nil { // an error is a label that is not UTF-8, which the API server does not store
				ch <- m
			}
		}
	}
}
