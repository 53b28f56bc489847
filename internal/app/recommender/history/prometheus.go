// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/prom"
)

// PrometheusConfig is how usage history is read from Prometheus at start.
type PrometheusConfig struct {
	Address, Job                               string
	Insecure                                   bool
	QueryTimeout                               string
	Token, TokenFile, Username, Password       string
	Length, Resolution                         string
	CPUMetric, MemoryMetric                    string
	PodLabelPrefix, PodLabelsMetric            string
	PodNamespaceLabel, PodNameLabel            string
	ContainerNamespaceLabel, ContainerPodLabel string
	ContainerNameLabel                         string
}

// PrometheusDefaults returns upstream's defaults.
func PrometheusDefaults() PrometheusConfig {
	return PrometheusConfig{
		Address: "http://prometheus.monitoring.svc", Job: "kubernetes-cadvisor", QueryTimeout: "5m",
		Username: os.Getenv("PROMETHEUS_USERNAME"), Password: os.Getenv("PROMETHEUS_PASSWORD"),
		Length: "8d", Resolution: "1h",
		CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
		PodLabelPrefix: "pod_label_", PodLabelsMetric: `up{job="kubernetes-pods"}`,
		PodNamespaceLabel: "kubernetes_namespace", PodNameLabel: "kubernetes_pod_name",
		ContainerNamespaceLabel: "namespace", ContainerPodLabel: "pod_name", ContainerNameLabel: "name",
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (h *PrometheusConfig) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&h.Address, "prometheus-address", h.Address, "URL of Prometheus.")
	fs.BoolVar(&h.Insecure, "prometheus-insecure", h.Insecure, "If true, do not verify the TLS certificate of Prometheus.")
	fs.StringVar(&h.Job, "prometheus-cadvisor-job-name", h.Job, "Name of the Prometheus job that scrapes cAdvisor.")
	fs.StringVar(&h.QueryTimeout, "prometheus-query-timeout", h.QueryTimeout, "Timeout of one Prometheus query.")
	fs.StringVar(&h.Token, "prometheus-bearer-token", h.Token, "Bearer token for Prometheus. Excludes --prometheus-bearer-token-file.")
	fs.StringVar(&h.TokenFile, "prometheus-bearer-token-file", h.TokenFile, "Path of a file that contains the bearer token for Prometheus. Excludes --prometheus-bearer-token.")
	fs.StringVar(&h.Username, "username", h.Username, "User name for Prometheus. Defaults to the environment variable PROMETHEUS_USERNAME.")
	fs.StringVar(&h.Password, "password", h.Password, "Password for Prometheus. Defaults to the environment variable PROMETHEUS_PASSWORD.")
	fs.StringVar(&h.Length, "history-length", h.Length, "Length of the usage history that is read from Prometheus, such as 8d.")
	fs.StringVar(&h.Resolution, "history-resolution", h.Resolution, "Time between two samples of the usage history that is read from Prometheus, such as 1h.")
	fs.StringVar(&h.CPUMetric, "history-cpu-metric", h.CPUMetric, "Name of the Prometheus metric for CPU usage.")
	fs.StringVar(&h.MemoryMetric, "history-memory-metric", h.MemoryMetric, "Name of the Prometheus metric for memory usage.")
	fs.StringVar(&h.PodLabelPrefix, "pod-label-prefix", h.PodLabelPrefix, "Prefix of the labels of --metric-for-pod-labels that contain pod labels.")
	fs.StringVar(&h.PodLabelsMetric, "metric-for-pod-labels", h.PodLabelsMetric, "Prometheus metric whose labels contain the labels of pods.")
	fs.StringVar(&h.PodNamespaceLabel, "pod-namespace-label", h.PodNamespaceLabel, "Label of --metric-for-pod-labels that contains the namespace.")
	fs.StringVar(&h.PodNameLabel, "pod-name-label", h.PodNameLabel, "Label of --metric-for-pod-labels that contains the pod name.")
	fs.StringVar(&h.ContainerNamespaceLabel, "container-namespace-label", h.ContainerNamespaceLabel, "Label of the usage metrics that contains the namespace.")
	fs.StringVar(&h.ContainerPodLabel, "container-pod-name-label", h.ContainerPodLabel, "Label of the usage metrics that contains the pod name.")
	fs.StringVar(&h.ContainerNameLabel, "container-name-label", h.ContainerNameLabel, "Label of the usage metrics that contains the container name.")
}

// Client returns a Prometheus client as the flags configure it. m counts its requests.
func (h *PrometheusConfig) Client(m *Metrics) (*prom.Client, error) {
	var durations [3]time.Duration
	for i, f := range []struct{ flag, value string }{
		{"history-length", h.Length}, {"history-resolution", h.Resolution}, {"prometheus-query-timeout", h.QueryTimeout},
	} {
		d, err := model.ParseDuration(f.value)
		if err != nil || d <= 0 {
			return nil, process.UsageError{Err: fmt.Errorf("--%s must be a duration such as 5m, 1h or 8d, got %q", f.flag, f.value)}
		}
		durations[i] = time.Duration(d)
	}
	if u, err := url.Parse(h.Address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, process.UsageError{Err: fmt.Errorf("--prometheus-address must be a URL such as http://prometheus.monitoring.svc, got %q", h.Address)}
	}
	config := prom.Config{
		Address: h.Address, Insecure: h.Insecure, Token: h.Token, TokenFile: h.TokenFile, Username: h.Username, Password: h.Password,
		Job: h.Job, CPUMetric: h.CPUMetric, MemoryMetric: h.MemoryMetric, Length: durations[0], Resolution: durations[1], Timeout: durations[2],
		NamespaceLabel: h.ContainerNamespaceLabel, PodLabel: h.ContainerPodLabel, ContainerLabel: h.ContainerNameLabel,
		LabelsMetric: h.PodLabelsMetric, LabelPrefix: h.PodLabelPrefix, LabelsNamespaceLabel: h.PodNamespaceLabel, LabelsPodLabel: h.PodNameLabel,
	}
	transport, err := prom.Transport(config)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--storage=prometheus: %w", err)}
	}
	transport = promhttp.InstrumentRoundTripperDuration(m.durations, promhttp.InstrumentRoundTripperCounter(m.requests, transport))
	c, err := prom.NewWithTransport(config, transport)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--storage=prometheus: %w", err)}
	}
	return c, nil
}
