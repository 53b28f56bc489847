// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// Config is the recommender's configuration.
type Config struct {
	process.Common
	Election process.Election

	Name                 string
	Interval             time.Duration
	Address              string
	Storage              string // "", checkpoint or prometheus
	CheckpointsGC        time.Duration
	CheckpointsTimeout   time.Duration
	MinCheckpoints       int
	Workers              int
	MemorySaver          bool
	IntegerCPU           bool
	MaxAllowedCPU        process.Quantity
	MaxAllowedMemory     process.Quantity
	ExternalMetrics      bool
	ExternalCPUMetric    string
	ExternalMemoryMetric string

	Sizing  SizingConfig
	History HistoryConfig

	nameFlag *pflag.Flag // tells whether --recommender-name was given
}

// SizingConfig is the part that decides the numbers.
type SizingConfig struct {
	Margin                                 float64
	MinCPUMillicores, MinMemoryMB          float64
	TargetCPU, LowerCPU, UpperCPU          float64 // percentiles, 0 to 1
	TargetMemory, LowerMemory, UpperMemory float64
	ConfidenceCPU, ConfidenceMemory        time.Duration
	MemoryInterval                         time.Duration
	MemoryCount                            int64
	MemoryHalfLife, CPUHalfLife            time.Duration
	OOMBumpRatio                           float64
	OOMMinBump                             float64 // bytes
	RoundCPUMillicores, RoundMemoryBytes   int
	HumanizeMemory                         bool
}

// HistoryConfig is how usage history is read from Prometheus at start.
type HistoryConfig struct {
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

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("vpa-recommender-lease"),
		Name: "default", Interval: time.Minute, Address: ":8942",
		CheckpointsGC: 10 * time.Minute, CheckpointsTimeout: time.Minute, MinCheckpoints: 10, Workers: 10,
		Sizing: SizingConfig{
			Margin: 0.15, MinCPUMillicores: 25, MinMemoryMB: 250,
			TargetCPU: 0.9, LowerCPU: 0.5, UpperCPU: 0.95,
			TargetMemory: 0.9, LowerMemory: 0.5, UpperMemory: 0.95,
			ConfidenceCPU: 24 * time.Hour, ConfidenceMemory: 24 * time.Hour,
			MemoryInterval: 24 * time.Hour, MemoryCount: 8,
			MemoryHalfLife: 24 * time.Hour, CPUHalfLife: 24 * time.Hour,
			OOMBumpRatio: 1.2, OOMMinBump: 100 * 1024 * 1024,
			RoundCPUMillicores: 1, RoundMemoryBytes: 1,
		},
		History: HistoryConfig{
			Address: "http://prometheus.monitoring.svc", Job: "kubernetes-cadvisor", QueryTimeout: "5m",
			Username: os.Getenv("PROMETHEUS_USERNAME"), Password: os.Getenv("PROMETHEUS_PASSWORD"),
			Length: "8d", Resolution: "1h",
			CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
			PodLabelPrefix: "pod_label_", PodLabelsMetric: `up{job="kubernetes-pods"}`,
			PodNamespaceLabel: "kubernetes_namespace", PodNameLabel: "kubernetes_pod_name",
			ContainerNamespaceLabel: "namespace", ContainerPodLabel: "pod_name", ContainerNameLabel: "name",
		},
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// OwnFlags binds what only the recommender has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Name, "recommender-name", c.Name, "Serve the VerticalPodAutoscalers that name this recommender. The default one also serves those that name none. When this flag is not given, podfit also serves those that name one of its profiles, built in or a SizingProfile of the cluster.")
	c.nameFlag = fs.Lookup("recommender-name")
	fs.DurationVar(&c.Interval, "recommender-interval", c.Interval, "How often usage is read and recommendations are made.")
	fs.StringVar(&c.Storage, "storage", c.Storage, "Where history comes from at start: checkpoint, or prometheus. Empty means checkpoint.")
	fs.DurationVar(&c.CheckpointsGC, "checkpoints-gc-interval", c.CheckpointsGC, "How often orphaned checkpoints are removed.")
	fs.DurationVar(&c.CheckpointsTimeout, "checkpoints-timeout", c.CheckpointsTimeout, "How long one pass may spend on writing checkpoints.")
	fs.IntVar(&c.MinCheckpoints, "min-checkpoints", c.MinCheckpoints, "Deprecated, without effect.")
	fs.IntVar(&c.Workers, "update-worker-count", c.Workers, "Number of writers of recommendations and checkpoints that run at a time.")
	fs.BoolVar(&c.MemorySaver, "memory-saver", c.MemorySaver, "Keep usage only of pods that a VerticalPodAutoscaler governs.")
	fs.BoolVar(&c.IntegerCPU, "cpu-integer-post-processor-enabled", c.IntegerCPU, "Round CPU up to whole cores for containers that an annotation names.")
	fs.Var(&c.MaxAllowedCPU, "container-recommendation-max-allowed-cpu", "Most CPU recommended for a container whose VerticalPodAutoscaler sets no maxAllowed.")
	fs.Var(&c.MaxAllowedMemory, "container-recommendation-max-allowed-memory", "Most memory recommended for a container whose VerticalPodAutoscaler sets no maxAllowed.")
	fs.BoolVar(&c.ExternalMetrics, "use-external-metrics", c.ExternalMetrics, "Read usage from the external metrics API. Alpha.")
	fs.StringVar(&c.ExternalCPUMetric, "external-metrics-cpu-metric", c.ExternalCPUMetric, "External metric with CPU usage. Alpha.")
	fs.StringVar(&c.ExternalMemoryMetric, "external-metrics-memory-metric", c.ExternalMemoryMetric, "External metric with memory usage. Alpha.")
	c.Sizing.flags(fs)
	c.History.flags(fs)
}

func (s *SizingConfig) flags(fs *pflag.FlagSet) {
	fs.Float64Var(&s.Margin, "recommendation-margin-fraction", s.Margin, "Share of usage added to it as a safety margin.")
	fs.Float64Var(&s.MinCPUMillicores, "pod-recommendation-min-cpu-millicores", s.MinCPUMillicores, "Least CPU recommended for a pod, in millicores, shared by its containers.")
	fs.Float64Var(&s.MinMemoryMB, "pod-recommendation-min-memory-mb", s.MinMemoryMB, "Least memory recommended for a pod, in mebibytes, shared by its containers.")
	fs.Float64Var(&s.TargetCPU, "target-cpu-percentile", s.TargetCPU, "Percentile of CPU usage for the target.")
	fs.Float64Var(&s.LowerCPU, "recommendation-lower-bound-cpu-percentile", s.LowerCPU, "Percentile of CPU usage for the lower bound.")
	fs.Float64Var(&s.UpperCPU, "recommendation-upper-bound-cpu-percentile", s.UpperCPU, "Percentile of CPU usage for the upper bound.")
	fs.Float64Var(&s.TargetMemory, "target-memory-percentile", s.TargetMemory, "Percentile of memory peaks for the target.")
	fs.Float64Var(&s.LowerMemory, "recommendation-lower-bound-memory-percentile", s.LowerMemory, "Percentile of memory peaks for the lower bound.")
	fs.Float64Var(&s.UpperMemory, "recommendation-upper-bound-memory-percentile", s.UpperMemory, "Percentile of memory peaks for the upper bound.")
	fs.DurationVar(&s.ConfidenceCPU, "confidence-interval-cpu", s.ConfidenceCPU, "How long CPU history must be for a confidence of 1.")
	fs.DurationVar(&s.ConfidenceMemory, "confidence-interval-memory", s.ConfidenceMemory, "How long memory history must be for a confidence of 1.")
	fs.DurationVar(&s.MemoryInterval, "memory-aggregation-interval", s.MemoryInterval, "Length of the window of which the memory peak is kept.")
	fs.Int64Var(&s.MemoryCount, "memory-aggregation-interval-count", s.MemoryCount, "Number of memory windows that are kept.")
	fs.DurationVar(&s.MemoryHalfLife, "memory-histogram-decay-half-life", s.MemoryHalfLife, "Time in which a memory sample loses half of its weight.")
	fs.DurationVar(&s.CPUHalfLife, "cpu-histogram-decay-half-life", s.CPUHalfLife, "Time in which a CPU sample loses half of its weight.")
	fs.Float64Var(&s.OOMBumpRatio, "oom-bump-up-ratio", s.OOMBumpRatio, "Factor by which memory is raised after an OOM kill.")
	fs.Float64Var(&s.OOMMinBump, "oom-min-bump-up-bytes", s.OOMMinBump, "Least number of bytes by which memory is raised after an OOM kill.")
	fs.IntVar(&s.RoundCPUMillicores, "round-cpu-millicores", s.RoundCPUMillicores, "Round CPU up to a multiple of this, in millicores.")
	fs.IntVar(&s.RoundMemoryBytes, "round-memory-bytes", s.RoundMemoryBytes, "Round memory up to a multiple of this, in bytes.")
	fs.BoolVar(&s.HumanizeMemory, "humanize-memory", s.HumanizeMemory, "Deprecated: write memory with a unit that people read. Use --round-memory-bytes.")
}

func (h *HistoryConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&h.Address, "prometheus-address", h.Address, "Where Prometheus answers.")
	fs.BoolVar(&h.Insecure, "prometheus-insecure", h.Insecure, "Do not verify the certificate of Prometheus.")
	fs.StringVar(&h.Job, "prometheus-cadvisor-job-name", h.Job, "Name of the job that scrapes cAdvisor.")
	fs.StringVar(&h.QueryTimeout, "prometheus-query-timeout", h.QueryTimeout, "How long one query may take.")
	fs.StringVar(&h.Token, "prometheus-bearer-token", h.Token, "Token to authenticate to Prometheus with.")
	fs.StringVar(&h.TokenFile, "prometheus-bearer-token-file", h.TokenFile, "File with a token to authenticate to Prometheus with.")
	fs.StringVar(&h.Username, "username", h.Username, "User name for Prometheus; also from PROMETHEUS_USERNAME.")
	fs.StringVar(&h.Password, "password", h.Password, "Password for Prometheus; also from PROMETHEUS_PASSWORD.")
	fs.StringVar(&h.Length, "history-length", h.Length, "How much history is read.")
	fs.StringVar(&h.Resolution, "history-resolution", h.Resolution, "Time between the samples of history.")
	fs.StringVar(&h.CPUMetric, "history-cpu-metric", h.CPUMetric, "Metric with CPU usage.")
	fs.StringVar(&h.MemoryMetric, "history-memory-metric", h.MemoryMetric, "Metric with memory usage.")
	fs.StringVar(&h.PodLabelPrefix, "pod-label-prefix", h.PodLabelPrefix, "Prefix of pod labels in the metric with pod labels.")
	fs.StringVar(&h.PodLabelsMetric, "metric-for-pod-labels", h.PodLabelsMetric, "Metric with pod labels.")
	fs.StringVar(&h.PodNamespaceLabel, "pod-namespace-label", h.PodNamespaceLabel, "Label with the namespace in the metric with pod labels.")
	fs.StringVar(&h.PodNameLabel, "pod-name-label", h.PodNameLabel, "Label with the pod's name in the metric with pod labels.")
	fs.StringVar(&h.ContainerNamespaceLabel, "container-namespace-label", h.ContainerNamespaceLabel, "Label with the namespace in the usage metrics.")
	fs.StringVar(&h.ContainerPodLabel, "container-pod-name-label", h.ContainerPodLabel, "Label with the pod's name in the usage metrics.")
	fs.StringVar(&h.ContainerNameLabel, "container-name-label", h.ContainerNameLabel, "Label with the container's name in the usage metrics.")
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *Config) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(), c.ValidateOwn())
}

// ValidateOwn says what is wrong with what only the recommender has.
func (c *Config) ValidateOwn() error {
	var errs []error
	positive := func(flag string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s is %v: give a time above 0", flag, d))
		}
	}
	s := &c.Sizing
	positive("recommender-interval", c.Interval)
	positive("memory-aggregation-interval", s.MemoryInterval)
	positive("memory-histogram-decay-half-life", s.MemoryHalfLife)
	positive("cpu-histogram-decay-half-life", s.CPUHalfLife)
	positive("confidence-interval-cpu", s.ConfidenceCPU)
	positive("confidence-interval-memory", s.ConfidenceMemory)
	for _, p := range []struct {
		flag  string
		value float64
	}{
		{"target-cpu-percentile", s.TargetCPU}, {"target-memory-percentile", s.TargetMemory},
		{"recommendation-lower-bound-cpu-percentile", s.LowerCPU}, {"recommendation-lower-bound-memory-percentile", s.LowerMemory},
		{"recommendation-upper-bound-cpu-percentile", s.UpperCPU}, {"recommendation-upper-bound-memory-percentile", s.UpperMemory},
	} {
		if !(p.value >= 0 && p.value <= 1) {
			errs = append(errs, fmt.Errorf("--%s is %v: give a share from 0 to 1", p.flag, p.value))
		}
	}
	if !(s.Margin >= 0) {
		errs = append(errs, fmt.Errorf("--recommendation-margin-fraction is %v: give 0 or more", s.Margin))
	}
	if !(s.OOMBumpRatio >= 1) {
		errs = append(errs, fmt.Errorf("--oom-bump-up-ratio is %v: give 1 or more", s.OOMBumpRatio))
	}
	if !(s.OOMMinBump >= 0) {
		errs = append(errs, fmt.Errorf("--oom-min-bump-up-bytes is %v: give 0 or more", s.OOMMinBump))
	}
	if s.MemoryCount < 1 {
		errs = append(errs, fmt.Errorf("--memory-aggregation-interval-count is %d: give 1 or more", s.MemoryCount))
	}
	if s.RoundCPUMillicores < 1 || s.RoundMemoryBytes < 1 {
		errs = append(errs, errors.New("--round-cpu-millicores and --round-memory-bytes must be 1 or more"))
	}
	if c.Workers < 1 {
		errs = append(errs, fmt.Errorf("--update-worker-count is %d: give 1 or more", c.Workers))
	}
	switch c.Storage {
	case "", "checkpoint", "prometheus":
	default:
		errs = append(errs, fmt.Errorf("--storage is %q: give checkpoint or prometheus", c.Storage))
	}
	if c.History.Token != "" && c.History.TokenFile != "" {
		errs = append(errs, errors.New("--prometheus-bearer-token and --prometheus-bearer-token-file exclude each other: give one of them"))
	}
	return errors.Join(errs...)
}

// Serves reports whether an autoscaler is this recommender's: by namespace, and by the recommender it names.
func (c *Config) Serves(a *cluster.Autoscaler) bool {
	if !c.Common.Serves(a.Namespace) {
		return false
	}
	if c.Name == "default" {
		return a.Recommender == "" || a.Recommender == c.Name
	}
	return a.Recommender == c.Name
}

// NameGiven reports whether --recommender-name was given, be it with its default.
func (c *Config) NameGiven() bool { return c.nameFlag != nil && c.nameFlag.Changed }

// MaxAllowed returns the caps for containers whose autoscaler sets none.
func (c *Config) MaxAllowed() cluster.Resources {
	var r cluster.Resources
	if c.MaxAllowedCPU.Given {
		r = r.Set(cluster.CPU, c.MaxAllowedCPU.MilliValue())
	}
	if c.MaxAllowedMemory.Given {
		r = r.Set(cluster.Memory, c.MaxAllowedMemory.Value())
	}
	return r
}
