// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"podfit.dev/podfit/internal/app/process"
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
func (h *HistoryConfig) client(m *Metrics) (*prom.Client, error) {
	var spans [3]time.Duration
	for i, f := range []struct{ flag, value string }{
		{"history-length", h.Length}, {"history-resolution", h.Resolution}, {"prometheus-query-timeout", h.QueryTimeout},
	} {
		d, err := model.ParseDuration(f.value)
		if err != nil || d <= 0 {
			return nil, process.UsageError{Err: fmt.Errorf("--%s must be a duration such as 5m, 1h or 8d, got %q", f.flag, f.value)}
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
		return nil, process.UsageError{Err: fmt.Errorf("--storage=prometheus: %w", err)}
	}
	return c, nil
}

// past finds the workload of pods that may have gone: by what the cluster still knows, by the labels they had, by
// their names.
type past struct {
	pods    map[cluster.Key]*cluster.Pod
	labels  map[cluster.Key]prom.Labels
	targets map[string]*targets // by namespace
}

// selects reports whether the selector is known, and says anything.
func (t *target) selects() bool {
	requirements, known := t.selector.Requirements()
	return known && len(requirements) > 0
}

func (p *past) add(t target) {
	ns := t.workload.Namespace
	if p.targets[ns] == nil {
		p.targets[ns] = &targets{byName: map[string][]int{}, byLabel: map[string]map[string][]int{}}
	}
	p.targets[ns].add(t)
}

// targets are those of a namespace. Of a pod not all are looked at, but those that its name or one of its labels may belong to.
type targets struct {
	all     []target
	byName  map[string][]int            // numbers in all, by the name of the workload
	byLabel map[string]map[string][]int // numbers in all, by a label and its value, one of which the selector asks for
	other   []int                       // numbers in all of those whose selector asks for no value
}

func (ts *targets) add(t target) {
	i := len(ts.all)
	ts.all = append(ts.all, t)
	ts.byName[t.workload.Name] = append(ts.byName[t.workload.Name], i)
	requirements, _ := t.selector.Requirements()
	for _, q := range requirements {
		switch q.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			values := ts.byLabel[q.Key()]
			if values == nil {
				values = map[string][]int{}
				ts.byLabel[q.Key()] = values
			}
			for v := range q.Values() {
				values[v] = append(values[v], i)
			}
			return
		}
	}
	if len(requirements) > 0 {
		ts.other = append(ts.other, i)
	}
}

// first returns the first of some targets for which a condition holds, or what was found before if that comes first.
func (ts *targets) first(found int, of []int, holds func(*target) bool) int {
	for _, i := range of {
		if found >= 0 && i >= found {
			break
		}
		if holds(&ts.all[i]) {
			return i
		}
	}
	return found
}

// labelled returns the number of the first target that selects a pod with these labels, or -1.
func (ts *targets) labelled(l prom.Labels) int {
	matches := func(t *target) bool { return t.selector.Matches(l) }
	found := ts.first(-1, ts.other, matches)
	for label, values := range ts.byLabel {
		if v, ok := l.Lookup(label); ok {
			found = ts.first(found, values[v], matches)
		}
	}
	return found
}

// named returns the number of the first target that may have made a pod of this name, or -1.
func (ts *targets) named(pod string, labelled bool) int {
	found := -1
	for end := range len(pod) {
		if pod[end] != '-' {
			continue
		}
		found = ts.first(found, ts.byName[pod[:end]], func(t *target) bool {
			return t.name.MatchString(pod) && !(labelled && t.selects()) // labels that were looked at know better
		})
	}
	return found
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
	ts := p.targets[key.Namespace]
	if ts == nil {
		return cluster.Workload{}
	}
	l, labelled := p.labels[key]
	i := -1
	if labelled {
		i = ts.labelled(l)
	}
	if i < 0 {
		i = ts.named(key.Name, labelled)
	}
	if i < 0 {
		return cluster.Workload{}
	}
	return ts.all[i].workload
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
