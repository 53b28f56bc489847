// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/history"
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
	CapacityPlan         bool
	ExportAdvice         bool
	MemorySaver          bool
	IntegerCPU           bool
	MaxAllowedCPU        process.Quantity
	MaxAllowedMemory     process.Quantity
	ExternalMetrics      bool
	ExternalCPUMetric    string
	ExternalMemoryMetric string

	Sizing  SizingConfig
	History history.PrometheusConfig

	nameFlag, prometheusFlag *pflag.Flag // the Changed field is true if --recommender-name, or --prometheus-address, is on the command line
}

// SizingConfig holds the parameters of the default profile.
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

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("vpa-recommender-lease"),
		Name: "default", Interval: time.Minute, CapacityPlan: true, Address: ":8942",
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
		History: history.PrometheusDefaults(),
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address on which /metrics and /health-check are served.")
}

// OwnFlags binds the flags that only the recommender has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Name, "recommender-name", c.Name, "Name of this recommender. It serves the VPAs that have this name in spec.recommenders. The recommender \"default\" also serves VPAs without spec.recommenders. If this flag is unset, podfit also serves VPAs that name a built-in profile or a SizingProfile of the cluster.")
	c.nameFlag = fs.Lookup("recommender-name")
	fs.DurationVar(&c.Interval, "recommender-interval", c.Interval, "Time between two recommender passes. A pass reads usage and updates recommendations.")
	fs.StringVar(&c.Storage, "storage", c.Storage, "Where usage history is loaded from at startup: checkpoint or prometheus. Empty means checkpoint.")
	fs.DurationVar(&c.CheckpointsGC, "checkpoints-gc-interval", c.CheckpointsGC, "Time between two garbage collections of checkpoints. A garbage collection deletes checkpoints whose VPA no longer exists.")
	fs.DurationVar(&c.CheckpointsTimeout, "checkpoints-timeout", c.CheckpointsTimeout, "Maximum time that one pass spends on writing checkpoints.")
	fs.IntVar(&c.MinCheckpoints, "min-checkpoints", c.MinCheckpoints, "Deprecated. This flag has no effect.")
	process.Ineffective(fs, "min-checkpoints")
	fs.IntVar(&c.Workers, "update-worker-count", c.Workers, "Number of workers that write recommendations and checkpoints concurrently. At least 1.")
	fs.BoolVar(&c.CapacityPlan, "capacity-plan", c.CapacityPlan, "If true, keep the CapacityPlan object up to date: how much of each pool of nodes is requested, and when it will be full. It requires that all namespaces are watched.")
	fs.BoolVar(&c.ExportAdvice, "export-recommendations", c.ExportAdvice, "If true, serve the recommendations of VPA objects as metrics, with the names that kube-state-metrics uses: 8 series for each container. The leader serves those of the VPAs that it sizes.")
	fs.BoolVar(&c.MemorySaver, "memory-saver", c.MemorySaver, "If true, keep usage history only of pods that a VPA targets.")
	fs.BoolVar(&c.IntegerCPU, "cpu-integer-post-processor-enabled", c.IntegerCPU, "If true, round recommended CPU up to whole cores for containers that are named by the VPA's annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU.")
	fs.Var(&c.MaxAllowedCPU, "container-recommendation-max-allowed-cpu", "Maximum CPU recommended for a container whose VPA sets no maxAllowed for CPU. Empty means no maximum.")
	fs.Var(&c.MaxAllowedMemory, "container-recommendation-max-allowed-memory", "Maximum memory recommended for a container whose VPA sets no maxAllowed for memory. Empty means no maximum.")
	fs.BoolVar(&c.ExternalMetrics, "use-external-metrics", c.ExternalMetrics, "If true, read usage from the external metrics API instead of the Metrics API. Alpha.")
	fs.StringVar(&c.ExternalCPUMetric, "external-metrics-cpu-metric", c.ExternalCPUMetric, "Name of the external metric for CPU usage. Alpha.")
	fs.StringVar(&c.ExternalMemoryMetric, "external-metrics-memory-metric", c.ExternalMemoryMetric, "Name of the external metric for memory usage. Alpha.")
	c.Sizing.flags(fs)
	c.History.Flags(fs)
	c.prometheusFlag = fs.Lookup("prometheus-address")
}

func (s *SizingConfig) flags(fs *pflag.FlagSet) {
	fs.Float64Var(&s.Margin, "recommendation-margin-fraction", s.Margin, "Fraction of usage that is added to the recommendation as a safety margin. 0.15 adds 15 %. At least 0.")
	fs.Float64Var(&s.MinCPUMillicores, "pod-recommendation-min-cpu-millicores", s.MinCPUMillicores, "Minimum CPU recommended for a pod, in millicores. It is divided among the pod's containers.")
	fs.Float64Var(&s.MinMemoryMB, "pod-recommendation-min-memory-mb", s.MinMemoryMB, "Minimum memory recommended for a pod, in MiB. It is divided among the pod's containers.")
	fs.Float64Var(&s.TargetCPU, "target-cpu-percentile", s.TargetCPU, "Quantile of CPU usage that is the base of the target recommendation. Between 0 and 1.")
	fs.Float64Var(&s.LowerCPU, "recommendation-lower-bound-cpu-percentile", s.LowerCPU, "Quantile of CPU usage that is the base of the lower bound. Between 0 and 1.")
	fs.Float64Var(&s.UpperCPU, "recommendation-upper-bound-cpu-percentile", s.UpperCPU, "Quantile of CPU usage that is the base of the upper bound. Between 0 and 1.")
	fs.Float64Var(&s.TargetMemory, "target-memory-percentile", s.TargetMemory, "Quantile of memory peaks that is the base of the target recommendation. Between 0 and 1.")
	fs.Float64Var(&s.LowerMemory, "recommendation-lower-bound-memory-percentile", s.LowerMemory, "Quantile of memory peaks that is the base of the lower bound. Between 0 and 1.")
	fs.Float64Var(&s.UpperMemory, "recommendation-upper-bound-memory-percentile", s.UpperMemory, "Quantile of memory peaks that is the base of the upper bound. Between 0 and 1.")
	fs.DurationVar(&s.ConfidenceCPU, "confidence-interval-cpu", s.ConfidenceCPU, "Length of CPU history at which the confidence of the bounds is 1. Shorter history widens the bounds.")
	fs.DurationVar(&s.ConfidenceMemory, "confidence-interval-memory", s.ConfidenceMemory, "Length of memory history at which the confidence of the bounds is 1. Shorter history widens the bounds.")
	fs.DurationVar(&s.MemoryInterval, "memory-aggregation-interval", s.MemoryInterval, "Length of a memory window. Only the peak usage of each window is kept.")
	fs.Int64Var(&s.MemoryCount, "memory-aggregation-interval-count", s.MemoryCount, "Number of memory windows that make up the memory history. At least 1.")
	fs.DurationVar(&s.MemoryHalfLife, "memory-histogram-decay-half-life", s.MemoryHalfLife, "Half-life of the weight of a memory peak.")
	fs.DurationVar(&s.CPUHalfLife, "cpu-histogram-decay-half-life", s.CPUHalfLife, "Half-life of the weight of a CPU sample.")
	fs.Float64Var(&s.OOMBumpRatio, "oom-bump-up-ratio", s.OOMBumpRatio, "Factor by which the memory of a container is multiplied after an OOM kill. At least 1.")
	fs.Float64Var(&s.OOMMinBump, "oom-min-bump-up-bytes", s.OOMMinBump, "Minimum increase of memory after an OOM kill, in bytes. At least 0.")
	fs.IntVar(&s.RoundCPUMillicores, "round-cpu-millicores", s.RoundCPUMillicores, "Round recommended CPU up to a multiple of this number of millicores. At least 1.")
	fs.IntVar(&s.RoundMemoryBytes, "round-memory-bytes", s.RoundMemoryBytes, "Round recommended memory up to a multiple of this number of bytes. At least 1.")
	fs.BoolVar(&s.HumanizeMemory, "humanize-memory", s.HumanizeMemory, "Deprecated. If true, write recommended memory with a binary unit such as Mi. Use --round-memory-bytes instead.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(), c.ValidateOwn())
}

// ValidateOwn returns an error for each invalid flag that only the recommender has.
func (c *Config) ValidateOwn() error {
	var errs []error
	positive := func(flag string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be greater than 0, got %v", flag, d))
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
			errs = append(errs, fmt.Errorf("--%s must be between 0 and 1, got %v", p.flag, p.value))
		}
	}
	if !(s.Margin >= 0) {
		errs = append(errs, fmt.Errorf("--recommendation-margin-fraction must be at least 0, got %v", s.Margin))
	}
	if !(s.OOMBumpRatio >= 1) {
		errs = append(errs, fmt.Errorf("--oom-bump-up-ratio must be at least 1, got %v", s.OOMBumpRatio))
	}
	if !(s.OOMMinBump >= 0) {
		errs = append(errs, fmt.Errorf("--oom-min-bump-up-bytes must be at least 0, got %v", s.OOMMinBump))
	}
	if s.MemoryCount < 1 {
		errs = append(errs, fmt.Errorf("--memory-aggregation-interval-count must be at least 1, got %d", s.MemoryCount))
	}
	if s.RoundCPUMillicores < 1 || s.RoundMemoryBytes < 1 {
		errs = append(errs, errors.New("--round-cpu-millicores and --round-memory-bytes must be at least 1"))
	}
	if c.Workers < 1 {
		errs = append(errs, fmt.Errorf("--update-worker-count must be at least 1, got %d", c.Workers))
	}
	switch c.Storage {
	case "", "checkpoint", "prometheus":
	default:
		errs = append(errs, fmt.Errorf("--storage must be checkpoint or prometheus, got %q", c.Storage))
	}
	if c.History.Token != "" && c.History.TokenFile != "" {
		errs = append(errs, errors.New("--prometheus-bearer-token and --prometheus-bearer-token-file cannot both be set"))
	}
	return errors.Join(errs...)
}

// Serves reports whether this recommender serves an autoscaler. It depends on the namespace and on the recommender that the autoscaler names.
func (c *Config) Serves(a *cluster.Autoscaler) bool {
	if !c.Common.Serves(a.Namespace) {
		return false
	}
	if c.Name == "default" {
		return a.Recommender == "" || a.Recommender == c.Name
	}
	return a.Recommender == c.Name
}

// NameGiven reports whether --recommender-name is on the command line, even with its default value.
func (c *Config) NameGiven() bool { return c.nameFlag != nil && c.nameFlag.Changed }

// HasPrometheus reports whether the user has named a Prometheus: by --prometheus-address, or by the choice of its default address with
// --storage=prometheus.
func (c *Config) HasPrometheus() bool {
	return c.Storage == "prometheus" || c.prometheusFlag != nil && c.prometheusFlag.Changed
}

// SeesAllPods reports whether the recommender knows all pods of the cluster, and reads the usage of all.
func (c *Config) SeesAllPods() bool { return c.allNamespaces() && !c.ExternalMetrics }

// allNamespaces reports whether the objects of all namespaces are watched.
func (c *Config) allNamespaces() bool {
	return c.Common.Namespace == "" && strings.Join(c.Common.IgnoredNamespaces, "") == ""
}

// MaxAllowed returns the maximum for containers whose autoscaler sets no maxAllowed.
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
