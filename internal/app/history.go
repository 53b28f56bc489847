// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

// history is stored usage that the recommender learns from.
type history interface {
	Length() time.Duration
	PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]prom.Labels, error)
	HistorySince(ctx context.Context, namespace string, from, now time.Time, each func(usage.Sample)) error
}

// client returns a client of the Prometheus that the flags name.
func (h *HistoryConfig) client(m *recommenderMetrics) (*prom.Client, error) {
	var spans [3]time.Duration
	for i, f := range []struct{ flag, value string }{
		{"history-length", h.Length}, {"history-resolution", h.Resolution}, {"prometheus-query-timeout", h.QueryTimeout},
	} {
		d, err := model.ParseDuration(f.value)
		if err != nil || d <= 0 {
			return nil, usageError{fmt.Errorf("--%s is %q: give a duration such as 5m, 1h or 8d", f.flag, f.value)}
		}
		spans[i] = time.Duration(d)
	}
	c, err := prom.New(prom.Config{
		Address: h.Address, Insecure: h.Insecure, Token: h.Token, TokenFile: h.TokenFile, Username: h.Username, Password: h.Password,
		Job: h.Job, CPUMetric: h.CPUMetric, MemoryMetric: h.MemoryMetric, Length: spans[0], Resolution: spans[1], Timeout: spans[2],
		NamespaceLabel: h.ContainerNamespaceLabel, PodLabel: h.ContainerPodLabel, ContainerLabel: h.ContainerNameLabel,
		LabelsMetric: h.PodLabelsMetric, LabelPrefix: h.PodLabelPrefix, LabelsNamespaceLabel: h.PodNamespaceLabel, LabelsPodLabel: h.PodNameLabel,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return promhttp.InstrumentRoundTripperDuration(m.durations, promhttp.InstrumentRoundTripperCounter(m.requests, next))
		},
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("--storage=prometheus: %w", err)}
	}
	return c, nil
}

// past finds the workload of pods that may have gone: by what the cluster still knows, by the labels they had, by
// their names.
type past struct {
	pods    map[cluster.Key]*cluster.Pod
	labels  map[cluster.Key]prom.Labels
	targets map[string][]target // by namespace
}

type target struct {
	workload cluster.Workload
	selector labels.Selector
	name     *regexp.Regexp
}

// selecting reads the selector of a controller's pods.
type selecting interface {
	Selector(context.Context, cluster.Workload) (labels.Selector, error)
}

// workload returns the workload of a pod, zero when it is of none that is sized.
func (p *past) workload(key cluster.Key) cluster.Workload {
	if pod := p.pods[key]; pod != nil {
		return pod.Top
	}
	l, labelled := p.labels[key]
	for _, t := range p.targets[key.Namespace] {
		if labelled && !t.selector.Empty() && t.selector.Matches(l) {
			return t.workload
		}
	}
	for _, t := range p.targets[key.Namespace] {
		if t.name.MatchString(key.Name) && !(labelled && !t.selector.Empty()) { // labels that were looked at know better
			return t.workload
		}
	}
	return cluster.Workload{}
}

// podName returns the form that the names of a workload's pods have. Kubernetes makes random parts from an alphabet
// without vowels, so that "web" is not taken for the owner of a pod of "web-api".
func podName(w cluster.Workload) *regexp.Regexp {
	const random = `[bcdfghjklmnpqrstvwxz2456789]{5}`
	tail := map[string]string{
		"Deployment":  `[bcdfghjklmnpqrstvwxz2456789]{6,10}-` + random,
		"StatefulSet": `[0-9]+`,
		"CronJob":     `[0-9]{8,11}-(?:[0-9]+-)?` + random,
		"Job":         `(?:[0-9]+-)?` + random,
	}[w.Kind]
	if tail == "" {
		tail = `(?:[bcdfghjklmnpqrstvwxz2456789]{6,10}-)?(?:` + random + `|[0-9]+)`
	}
	return regexp.MustCompile("^" + regexp.QuoteMeta(w.Name) + "-" + tail + "$")
}
