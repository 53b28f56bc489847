// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
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
	prom.Config                                    // without its durations
	LengthText, ResolutionText, TimeoutText string // the durations in the format of Prometheus, such as 8d
}

// PrometheusDefaults returns upstream's defaults.
func PrometheusDefaults() PrometheusConfig {
	return PrometheusConfig{
		Config: prom.Config{
			Address: "http://prometheus.monitoring.svc", Job: "kubernetes-cadvisor",
			Username: os.Getenv("PROMETHEUS_USERNAME"), Password: os.Getenv("PROMETHEUS_PASSWORD"),
			CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
			NamespaceLabel: "namespace", PodLabel: "pod_name", ContainerLabel: "name",
			LabelPrefix: "pod_label_", LabelsMetric: `up{job="kubernetes-pods"}`,
			LabelsNamespaceLabel: "kubernetes_namespace", LabelsPodLabel: "kubernetes_pod_name",
		},
		LengthText: "8d", ResolutionText: "1h", TimeoutText: "5m",
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (h *PrometheusConfig) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&h.Address, "prometheus-address", h.Address, "URL of Prometheus.")
	fs.BoolVar(&h.Insecure, "prometheus-insecure", h.Insecure, "If true, do not verify the TLS certificate of Prometheus.")
	fs.StringVar(&h.Job, "prometheus-cadvisor-job-name", h.Job, "Name of the Prometheus job that scrapes cAdvisor.")
	fs.StringVar(&h.TimeoutText, "prometheus-query-timeout", h.TimeoutText, "Timeout of one Prometheus query.")
	fs.StringVar(&h.Token, "prometheus-bearer-token", h.Token, "Bearer token for Prometheus. Excludes --prometheus-bearer-token-file.")
	fs.StringVar(&h.TokenFile, "prometheus-bearer-token-file", h.TokenFile, "Path of a file that contains the bearer token for Prometheus. Excludes --prometheus-bearer-token.")
	fs.StringVar(&h.Username, "username", h.Username, "User name for Prometheus. Defaults to the environment variable PROMETHEUS_USERNAME.")
	fs.StringVar(&h.Password, "password", h.Password, "Password for Prometheus. Defaults to the environment variable PROMETHEUS_PASSWORD.")
	fs.StringVar(&h.LengthText, "history-length", h.LengthText, "Length of the usage history that is read from Prometheus, such as 8d.")
	fs.StringVar(&h.ResolutionText, "history-resolution", h.ResolutionText, "Time between two samples of the usage history that is read from Prometheus, such as 1h.")
	fs.StringVar(&h.CPUMetric, "history-cpu-metric", h.CPUMetric, "Name of the Prometheus metric for CPU usage.")
	fs.StringVar(&h.MemoryMetric, "history-memory-metric", h.MemoryMetric, "Name of the Prometheus metric for memory usage.")
	fs.StringVar(&h.LabelPrefix, "pod-label-prefix", h.LabelPrefix, "Prefix of the labels of --metric-for-pod-labels that contain pod labels.")
	fs.StringVar(&h.LabelsMetric, "metric-for-pod-labels", h.LabelsMetric, "Prometheus metric whose labels contain the labels of pods.")
	fs.StringVar(&h.LabelsNamespaceLabel, "pod-namespace-label", h.LabelsNamespaceLabel, "Label of --metric-for-pod-labels that contains the namespace.")
	fs.StringVar(&h.LabelsPodLabel, "pod-name-label", h.LabelsPodLabel, "Label of --metric-for-pod-labels that contains the pod name.")
	fs.StringVar(&h.NamespaceLabel, "container-namespace-label", h.NamespaceLabel, "Label of the usage metrics that contains the namespace.")
	fs.StringVar(&h.PodLabel, "container-pod-name-label", h.PodLabel, "Label of the usage metrics that contains the pod name.")
	fs.StringVar(&h.ContainerLabel, "container-name-label", h.ContainerLabel, "Label of the usage metrics that contains the container name.")
}

// Client returns a Prometheus client as the flags configure it. m counts its requests.
func (h *PrometheusConfig) Client(m *Metrics) (*prom.Client, error) {
	config := h.Config
	for _, f := range []struct {
		flag, value string
		to          *time.Duration
	}{
		{"history-length", h.LengthText, &config.Length}, {"history-resolution", h.ResolutionText, &config.Resolution},
		{"prometheus-query-timeout", h.TimeoutText, &config.Timeout},
	} {
		d, err := model.ParseDuration(f.value)
		if err != nil || d <= 0 {
			return nil, process.UsageError{Err: fmt.Errorf("--%s must be a duration such as 5m, 1h or 8d, got %q", f.flag, f.value)}
		}
		*f.to = time.Duration(d)
	}
	if !process.IsURL(h.Address) {
		return nil, process.UsageError{Err: fmt.Errorf("--prometheus-address must be a URL such as http://prometheus.monitoring.svc, got %q", h.Address)}
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
