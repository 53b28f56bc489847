// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

// history is stored usage that the recommender learns from at its start.
type history interface {
	PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]prom.Labels, error)
	History(ctx context.Context, namespace string, now time.Time, each func(usage.Sample)) error
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

// learnHistory replays stored usage into the book. What cannot be read is said and left out: there is always less
// history, never none of what was read.
func (r *recommender) learnHistory(ctx context.Context, h history, selectors selecting, now time.Time) {
	snapshot := r.world.Snapshot()
	r.profiles.read(ctx)
	ours := r.served(snapshot)
	r.book.Tick(now)
	r.configure(now, snapshot, ours)
	r.profiles.begun = nil // they learn from what was measured
	r.track(snapshot)
	p := past{pods: map[cluster.Key]*cluster.Pod{}, targets: map[string][]target{}}
	for _, pod := range snapshot.Pods {
		p.pods[pod.Key] = pod
	}
	var err error
	if p.labels, err = h.PodLabels(ctx, now); err != nil {
		r.log.Warn("Cannot read the labels that pods had; pods that have gone are known by their names alone", "error", err)
	}
	for _, a := range ours {
		if a.Target.IsZero() || slices.ContainsFunc(p.targets[a.Namespace], func(t target) bool { return t.workload == a.Target }) {
			continue
		}
		selector, err := selectors.Selector(ctx, a.Target)
		if err != nil {
			r.log.Warn("Cannot read a selector; pods of the workload that have gone are known by their names alone",
				"autoscaler", a.Key.String(), "error", err)
			selector = labels.Nothing()
		}
		p.targets[a.Namespace] = append(p.targets[a.Namespace], target{a.Target, selector, podName(a.Target)})
	}
	for _, namespace := range namespacesOf(ours) {
		r.replay(ctx, h, &p, namespace, now)
	}
}

func namespacesOf(as []*cluster.Autoscaler) []string {
	var out []string
	for _, a := range as {
		out = append(out, a.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// replay reads the history of one namespace. A pod that has gone comes back for its time, one for each of its
// containers, because the rest of it is not known any more.
func (r *recommender) replay(ctx context.Context, h history, p *past, namespace string, now time.Time) {
	type instance struct {
		pod       cluster.Key
		container string
	}
	stand := map[instance]cluster.Key{} // the pod that stands for it in the book; zero: of no interest
	samples, taken := 0, 0
	each := func(s usage.Sample) {
		samples++
		in := instance{s.Pod, s.Container}
		key, known := stand[in]
		if !known {
			key = r.standIn(p, s.Pod, s.Container)
			stand[in] = key
		}
		if key == (cluster.Key{}) {
			return
		}
		s.Pod = key
		if !r.book.Observe(s).Empty() {
			taken++
		}
	}
	var err error
	for try := range 3 {
		if err = h.History(ctx, namespace, now, each); err == nil || ctx.Err() != nil {
			break
		}
		r.log.Warn("Cannot read the usage history of a namespace", "namespace", namespace, "try", try+1, "error", err)
	}
	for in, key := range stand {
		if key != in.pod && key != (cluster.Key{}) {
			r.book.Forget(key)
		}
	}
	r.log.Info("Read usage history", "namespace", namespace, "samples", samples, "taken", taken, "complete", err == nil)
}

// standIn returns the pod in the book that takes the samples of a container.
func (r *recommender) standIn(p *past, pod cluster.Key, container string) cluster.Key {
	if r.book.Tracked(pod) {
		return pod
	}
	w := p.workload(pod)
	if w.IsZero() || !r.governed[w] {
		return cluster.Key{}
	}
	key := cluster.Key{Namespace: pod.Namespace, Name: pod.Name + "/" + container} // no pod can have this name
	r.book.Track(&cluster.Pod{
		Key: key, UID: key.String(), Top: w, Phase: cluster.Succeeded, Containers: []cluster.Container{{Name: container}},
	})
	return key
}
