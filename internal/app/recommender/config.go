// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// Config is the recommender's configuration.
type Config struct {
	process.Common
	Election process.Election

	Name                 string
	Interval             time.Duration
	StatusInterval       time.Duration // sizing.Pace
	Address              string
	Storage              string // "", checkpoint or prometheus
	CheckpointsGC        time.Duration
	CheckpointsTimeout   time.Duration
	MinCheckpoints       int
	Workers              int
	CapacityPlan         bool
	ExportAdvice         bool
	OptIn                bool
	MemorySaver          bool
	IntegerCPU           bool
	MaxAllowedCPU        process.Quantity
	MaxAllowedMemory     process.Quantity
	KubeletUsage         bool
	KubeletInsecure      bool
	ExternalMetrics      bool
	ExternalCPUMetric    string
	ExternalMemoryMetric string

	Sizing  SizingConfig
	History history.PrometheusConfig

	flags *pflag.FlagSet // that OwnFlags has extended; nil: the configuration has no flags
}

// SizingConfig holds the parameters of the default profile and of the usage store. Some flags accept other types of numbers than these have.
type SizingConfig struct {
	recommend.Params
	Usage                                usage.Config
	OOMMinBump                           float64       // bytes; replaces that of Usage
	RoundCPUMillicores, RoundMemoryBytes int           // replace those of Params
	RoleHistory                          time.Duration // --role-history; 0: there are no groups
}

func (s *SizingConfig) params() recommend.Params {
	p := s.Params
	p.RoundMillicores = int64(s.RoundCPUMillicores)
	p.RoundBytes = int64(s.RoundMemoryBytes)
	return p
}

// usage returns the configuration of a usage store without init containers.
func (s *SizingConfig) usage() usage.Config {
	c := s.Usage
	c.OOMMinBump = int64(s.OOMMinBump)
	c.InitRuns = false
	return c
}

func (c *Config) usage() usage.Config {
	out := c.Sizing.usage()
	out.InitRuns = out.Runs && c.SizeSidecars
	return out
}

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("vpa-recommender-lease"),
		Name: "default", Interval: time.Minute, StatusInterval: 10 * time.Minute, CapacityPlan: true, Address: ":8942",
		CheckpointsGC: 10 * time.Minute, CheckpointsTimeout: time.Minute, MinCheckpoints: 10, Workers: 10,
		Sizing: SizingConfig{
			Params: recommend.DefaultParams(), Usage: usage.DefaultConfig(),
			OOMMinBump: 100 * 1024 * 1024, RoundCPUMillicores: 1, RoundMemoryBytes: 1, RoleHistory: 24 * time.Hour,
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
	c.flags = fs
	fs.StringVar(&c.Name, "recommender-name", c.Name, "Name of this recommender. It serves the VPAs that have this name in spec.recommenders. The recommender \"default\" also serves VPAs without spec.recommenders. If this flag is unset, podfit also serves VPAs that name a built-in profile or a SizingProfile of the cluster.")
	fs.DurationVar(&c.Interval, "recommender-interval", c.Interval, "Time between two recommender passes. A pass reads usage and updates recommendations.")
	fs.DurationVar(&c.StatusInterval, "status-interval", c.StatusInterval, "How long the bounds in the status of a VPA may differ by up to 5 % from those that its usage history gives, while the target is the same and no running pod requests an amount between both. After this time they may differ by 1 %. 0s writes each change, as upstream does, and each checkpoint in each pass, not every ten minutes.")
	fs.StringVar(&c.Storage, "storage", c.Storage, "Where usage history is loaded from at startup: checkpoint or prometheus. Empty means checkpoint.")
	fs.DurationVar(&c.CheckpointsGC, "checkpoints-gc-interval", c.CheckpointsGC, "Time between two garbage collections of checkpoints. A garbage collection deletes checkpoints whose VPA no longer exists.")
	fs.DurationVar(&c.CheckpointsTimeout, "checkpoints-timeout", c.CheckpointsTimeout, "Maximum time that one pass spends on writing checkpoints.")
	fs.IntVar(&c.MinCheckpoints, "min-checkpoints", c.MinCheckpoints, "Deprecated. This flag has no effect.")
	process.Ineffective(fs, "min-checkpoints")
	fs.IntVar(&c.Workers, "update-worker-count", c.Workers, "Number of workers that write recommendations and checkpoints concurrently. At least 1.")
	fs.BoolVar(&c.CapacityPlan, "capacity-plan", c.CapacityPlan, "If true, keep the CapacityPlan object up to date: how much of each pool of nodes is requested, and when it will be full. It requires that all namespaces are watched.")
	fs.BoolVar(&c.ExportAdvice, "export-recommendations", c.ExportAdvice, "If true, serve the recommendations of VPA objects as metrics, with the names that kube-state-metrics uses: 8 series for each container. The leader serves those of the VPAs that it sizes.")
	fs.BoolVar(&c.OptIn, "namespace-opt-in", c.OptIn, "If true, maintain a VPA for each Deployment, StatefulSet, DaemonSet and CronJob without one in namespaces with the label podfit.dev/autoscale: off, initial, recreate or in-place-or-recreate. It requires the component deploy/rights/namespace-opt-in.")
	fs.BoolVar(&c.MemorySaver, "memory-saver", c.MemorySaver, "If true, keep usage history only of pods that a VPA targets.")
	fs.BoolVar(&c.IntegerCPU, "cpu-integer-post-processor-enabled", c.IntegerCPU, "If true, round recommended CPU up to whole cores for containers that are named by the VPA's annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU.")
	fs.Var(&c.MaxAllowedCPU, "container-recommendation-max-allowed-cpu", "Maximum CPU recommended for a container whose VPA sets no maxAllowed for CPU. Empty means no maximum.")
	fs.Var(&c.MaxAllowedMemory, "container-recommendation-max-allowed-memory", "Maximum memory recommended for a container whose VPA sets no maxAllowed for memory. Empty means no maximum.")
	fs.BoolVar(&c.KubeletUsage, "kubelet-usage", c.KubeletUsage, "If true, read the usage of the runs of Jobs, CronJobs and init containers from the kubelets every 5 seconds, until the Metrics API has a sample of the pod. It requires the component deploy/rights/kubelet-metrics.")
	fs.BoolVar(&c.KubeletInsecure, "kubelet-insecure-tls", c.KubeletInsecure, "If true, do not verify the serving certificates of kubelets (--kubelet-usage, --node-guard-pressure). Otherwise the authority of the cluster must have signed them.")
	fs.BoolVar(&c.ExternalMetrics, "use-external-metrics", c.ExternalMetrics, "If true, read usage from the external metrics API instead of the Metrics API. Alpha.")
	fs.StringVar(&c.ExternalCPUMetric, "external-metrics-cpu-metric", c.ExternalCPUMetric, "Name of the external metric for CPU usage. Alpha.")
	fs.StringVar(&c.ExternalMemoryMetric, "external-metrics-memory-metric", c.ExternalMemoryMetric, "Name of the external metric for memory usage. Alpha.")
	c.Sizing.flags(fs)
	c.History.Flags(fs)
}

func (s *SizingConfig) flags(fs *pflag.FlagSet) {
	fs.Float64Var(&s.Margin, "recommendation-margin-fraction", s.Margin, "Fraction of usage that is added to the recommendation as a safety margin. 0.15 adds 15 %. At least 0.")
	fs.Float64Var(&s.FloorMillicores, "pod-recommendation-min-cpu-millicores", s.FloorMillicores, "Minimum CPU recommended for a pod, in millicores. It is divided among the pod's containers.")
	fs.Float64Var(&s.FloorMegabytes, "pod-recommendation-min-memory-mb", s.FloorMegabytes, "Minimum memory recommended for a pod, in MiB. It is divided among the pod's containers.")
	fs.Float64Var(&s.CPU.Target, "target-cpu-percentile", s.CPU.Target, "Quantile of CPU usage that is the base of the target recommendation. Between 0 and 1.")
	fs.Float64Var(&s.CPU.Lower, "recommendation-lower-bound-cpu-percentile", s.CPU.Lower, "Quantile of CPU usage that is the base of the lower bound. Between 0 and 1.")
	fs.Float64Var(&s.CPU.Upper, "recommendation-upper-bound-cpu-percentile", s.CPU.Upper, "Quantile of CPU usage that is the base of the upper bound. Between 0 and 1.")
	fs.Float64Var(&s.Memory.Target, "target-memory-percentile", s.Memory.Target, "Quantile of memory peaks that is the base of the target recommendation. Between 0 and 1.")
	fs.Float64Var(&s.Memory.Lower, "recommendation-lower-bound-memory-percentile", s.Memory.Lower, "Quantile of memory peaks that is the base of the lower bound. Between 0 and 1.")
	fs.Float64Var(&s.Memory.Upper, "recommendation-upper-bound-memory-percentile", s.Memory.Upper, "Quantile of memory peaks that is the base of the upper bound. Between 0 and 1.")
	fs.DurationVar(&s.CPUConfidence, "confidence-interval-cpu", s.CPUConfidence, "Length of CPU history at which the confidence of the bounds is 1. Shorter history widens the bounds.")
	fs.DurationVar(&s.MemoryConfidence, "confidence-interval-memory", s.MemoryConfidence, "Length of memory history at which the confidence of the bounds is 1. Shorter history widens the bounds.")
	fs.DurationVar(&s.Usage.MemoryInterval, "memory-aggregation-interval", s.Usage.MemoryInterval, "Length of a memory window. Only the peak usage of each window is kept.")
	fs.Int64Var(&s.Usage.MemoryCount, "memory-aggregation-interval-count", s.Usage.MemoryCount, "Number of memory windows that make up the memory history. At least 1.")
	fs.DurationVar(&s.Usage.MemoryHalfLife, "memory-histogram-decay-half-life", s.Usage.MemoryHalfLife, "Half-life of the weight of a memory peak.")
	fs.DurationVar(&s.Usage.CPUHalfLife, "cpu-histogram-decay-half-life", s.Usage.CPUHalfLife, "Half-life of the weight of a CPU sample.")
	fs.Float64Var(&s.Usage.OOMBumpRatio, "oom-bump-up-ratio", s.Usage.OOMBumpRatio, "Factor by which the memory of a container is multiplied after an OOM kill. At least 1.")
	fs.Float64Var(&s.OOMMinBump, "oom-min-bump-up-bytes", s.OOMMinBump, "Minimum increase of memory after an OOM kill, in bytes. At least 0.")
	fs.BoolVar(&s.Usage.Runs, "size-by-run", s.Usage.Runs, "If true, size the containers of Jobs and CronJobs by the highest usage in each of their last 30 runs, once 3 of them were measured. Otherwise by all samples, like other containers, as upstream does.")
	fs.DurationVar(&s.RoleHistory, "role-history", s.RoleHistory, "How long the pods with one role must have been measured before they get a size of their own. The annotation podfit.dev/role-label of a VPA names the label with the role; that of a pod of a DaemonSet is the size of its node. It also applies to what pods with pod-level requests use as a whole. 0s means that all pods of a workload get one size, and pod-level requests are the sum of the targets of the containers.")
	fs.IntVar(&s.RoundCPUMillicores, "round-cpu-millicores", s.RoundCPUMillicores, "Round recommended CPU up to a multiple of this number of millicores. At least 1.")
	fs.IntVar(&s.RoundMemoryBytes, "round-memory-bytes", s.RoundMemoryBytes, "Round recommended memory up to a multiple of this number of bytes. At least 1.")
	fs.BoolVar(&s.Humanize, "humanize-memory", s.Humanize, "Deprecated. If true, write recommended memory with a binary unit such as Mi. Use --round-memory-bytes instead.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(), c.ValidateOwn())
}

// ValidateOwn returns an error for each invalid flag that only the recommender has.
func (c *Config) ValidateOwn() error {
	var errs process.Problems
	positive := func(flag string, d time.Duration) {
		errs.AddIf(d <= 0, "--%s must be greater than 0, got %v", flag, d)
	}
	s := &c.Sizing
	positive("recommender-interval", c.Interval)
	errs.AddIf(c.StatusInterval < 0, "--status-interval must be at least 0, got %v", c.StatusInterval)
	positive("memory-aggregation-interval", s.Usage.MemoryInterval)
	positive("memory-histogram-decay-half-life", s.Usage.MemoryHalfLife)
	positive("cpu-histogram-decay-half-life", s.Usage.CPUHalfLife)
	positive("confidence-interval-cpu", s.CPUConfidence)
	positive("confidence-interval-memory", s.MemoryConfidence)
	for _, p := range []struct {
		flag  string
		value float64
	}{
		{"target-cpu-percentile", s.CPU.Target}, {"target-memory-percentile", s.Memory.Target},
		{"recommendation-lower-bound-cpu-percentile", s.CPU.Lower}, {"recommendation-lower-bound-memory-percentile", s.Memory.Lower},
		{"recommendation-upper-bound-cpu-percentile", s.CPU.Upper}, {"recommendation-upper-bound-memory-percentile", s.Memory.Upper},
	} {
		errs.AddIf(!(p.value >= 0 && p.value <= 1), "--%s must be between 0 and 1, got %v", p.flag, p.value)
	}
	errs.AddIf(!(s.Margin >= 0), "--recommendation-margin-fraction must be at least 0, got %v", s.Margin)
	errs.AddIf(!(s.Usage.OOMBumpRatio >= 1), "--oom-bump-up-ratio must be at least 1, got %v", s.Usage.OOMBumpRatio)
	errs.AddIf(!(s.OOMMinBump >= 0), "--oom-min-bump-up-bytes must be at least 0, got %v", s.OOMMinBump)
	errs.AddIf(s.Usage.MemoryCount < 1, "--memory-aggregation-interval-count must be at least 1, got %d", s.Usage.MemoryCount)
	errs.AddIf(s.RoundCPUMillicores < 1 || s.RoundMemoryBytes < 1, "--round-cpu-millicores and --round-memory-bytes must be at least 1")
	errs.AddIf(s.RoleHistory < 0, "--role-history must be at least 0s, got %v", s.RoleHistory)
	errs.AddIf(c.Workers < 1, "--update-worker-count must be at least 1, got %d", c.Workers)
	errs.AddIf(!slices.Contains([]string{"", "checkpoint", "prometheus"}, c.Storage), "--storage must be checkpoint or prometheus, got %q", c.Storage)
	errs.AddIf(c.History.Token != "" && c.History.TokenFile != "", "--prometheus-bearer-token and --prometheus-bearer-token-file cannot both be set")
	return errors.Join(errs...)
}

// Serves reports whether this recommender serves an autoscaler. It depends on the namespace and on the recommender that the autoscaler names.
func (c *Config) Serves(a *cluster.Autoscaler) bool {
	return c.Common.Serves(a.Namespace) && (a.Recommender == c.Name || a.Recommender == "" && c.Name == "default")
}

// NameGiven reports whether --recommender-name is on the command line, even with its default value.
func (c *Config) NameGiven() bool { return c.given("recommender-name") }

// HasPrometheus reports whether the user has named a Prometheus: by --prometheus-address, or by the choice of its default address with
// --storage=prometheus.
func (c *Config) HasPrometheus() bool {
	return c.Storage == "prometheus" || c.given("prometheus-address")
}

func (c *Config) given(flag string) bool { return c.flags != nil && c.flags.Changed(flag) }

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
