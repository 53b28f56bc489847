// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/internal/edge/trace"
)

// History is the configuration for reading usage from Prometheus instead of a file.
type History struct {
	Address            string
	Length, Resolution string
	Job                string
	TokenFile          string
	Insecure           bool
	Labels             [3]string // names of the labels for namespace, pod and container
}

// historyFlags are the flags that require --prometheus.
var historyFlags = []string{
	"history-length", "history-resolution", "prometheus-job", "prometheus-token-file", "prometheus-insecure",
	"namespace-label", "pod-label", "container-label",
}

func (h *History) flags(f *pflag.FlagSet) {
	h.Length = "30d"
	h.Resolution = "5m"
	h.Labels = [3]string{"namespace", "pod", "container"}
	f.StringVar(&h.Address, "prometheus", h.Address, "URL of the Prometheus to read usage from, instead of a trace.")
	f.StringVar(&h.Length, "history-length", h.Length, "Length of the history before --until, or before now. Excludes --since.")
	f.StringVar(&h.Resolution, "history-resolution", h.Resolution, "Time between two samples.")
	f.StringVar(&h.Job, "prometheus-job", h.Job, "Name of the job that scrapes the container metrics. Empty means any job.")
	f.StringVar(&h.TokenFile, "prometheus-token-file", h.TokenFile, "Path of a file that contains a bearer token.")
	f.BoolVar(&h.Insecure, "prometheus-insecure", h.Insecure, "If true, do not verify the TLS certificate of Prometheus.")
	f.StringVar(&h.Labels[0], "namespace-label", h.Labels[0], "Name of the label that contains the namespace.")
	f.StringVar(&h.Labels[1], "pod-label", h.Labels[1], "Name of the label that contains the pod name.")
	f.StringVar(&h.Labels[2], "container-label", h.Labels[2], "Name of the label that contains the container name.")
}

func (h *History) validate() error {
	var errs process.Problems
	errs.AddIf(!process.IsURL(h.Address), "--prometheus must be a URL such as http://localhost:9090, got %q%s", h.Address, h.meantURL())
	for i, flag := range [...]string{"--namespace-label", "--pod-label", "--container-label"} {
		none := i == 0 && h.Labels[i] == ""
		errs.AddIf(!none && !model.LegacyValidation.IsValidLabelName(h.Labels[i]), "%s must be a valid label name, got %q", flag, h.Labels[i])
	}
	for _, x := range [...]struct{ flag, value string }{{"--history-length", h.Length}, {"--history-resolution", h.Resolution}} {
		d, err := model.ParseDuration(x.value)
		errs.AddIf(err != nil || d <= 0, "%s must be a duration such as 5m, 1h or 30d, got %q", x.flag, x.value)
	}
	return errors.Join(errs...)
}

// meantURL returns the hint to an address that lacks only the scheme.
func (h *History) meantURL() string {
	if process.IsURL("http://" + h.Address) {
		return " (did you mean http://" + h.Address + "?)"
	}
	return ""
}

// client returns a client with the configuration, and the length of the history.
func (h *History) client(length time.Duration) (*prom.Client, error) {
	resolution, err := model.ParseDuration(h.Resolution)
	if err != nil {
		return nil, fmt.Errorf("--history-resolution: %w", err)
	}
	return prom.New(prom.Config{
		Address: h.Address, Insecure: h.Insecure, TokenFile: h.TokenFile, Timeout: 5 * time.Minute, Job: h.Job,
		CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
		Length: length, Resolution: time.Duration(resolution),
		NamespaceLabel: h.Labels[0], PodLabel: h.Labels[1], ContainerLabel: h.Labels[2],
	})
}

// read reads the workloads of the namespaces up to a time, in Unix seconds, and from another on if there is one. No namespaces means all.
func (h *History) read(ctx context.Context, namespaces []string, since, until int64) ([]replay.Workload, error) {
	length, err := model.ParseDuration(h.Length)
	if err != nil {
		return nil, fmt.Errorf("--history-length: %w", err)
	}
	if since > 0 {
		if length = model.Duration(time.Duration(until-since) * time.Second); length <= 0 {
			return nil, process.UsageError{Err: errors.New("--since must be in the past")}
		}
	}
	c, err := h.client(time.Duration(length))
	if err != nil {
		return nil, err
	}
	to := time.Unix(until, 0)
	from := to.Add(-c.Length())
	if len(namespaces) == 0 {
		if namespaces, err = c.Namespaces(ctx, from, to); err != nil {
			return nil, err
		}
		if len(namespaces) == 0 {
			return nil, fmt.Errorf("%s has no usage of any namespace; check --prometheus-job, --namespace-label, --pod-label and --container-label", h.Address)
		}
	}
	g := gatherer{workloads: trace.Workloads{}, owners: map[cluster.Key]cluster.Workload{}}
	for _, namespace := range namespaces {
		for sample, err := range c.HistorySince(ctx, namespace, from, to) {
			if err != nil {
				return nil, err
			}
			g.add(sample)
		}
	}
	return g.workloads.Sorted(), nil
}

// gatherer groups samples of pods by workload.
type gatherer struct {
	workloads trace.Workloads
	owners    map[cluster.Key]cluster.Workload
}

// add adds a sample. Implausible values are ignored, as in a cluster.
func (g *gatherer) add(s usage.Sample) {
	for _, v := range [...]float64{s.CPU, s.Memory} {
		if math.IsNaN(v) || v < 0 || v > usage.MaxBytes {
			return
		}
	}
	key, ok := g.owners[s.Pod]
	if !ok {
		key = cluster.OwnerByName(s.Pod)
		g.owners[s.Pod] = key
	}
	w := g.workloads.Of(key)
	pod := w.PodIndex(s.Pod.Name)
	container, ok := w.ContainerIndex(s.Container)
	if !ok {
		return // more containers than any pod has
	}
	w.Samples = append(w.Samples, replay.Sample{
		At: s.At.Unix(), CPU: s.CPU, Memory: s.Memory, Pod: pod, Container: container, Has: s.Has,
	})
}
