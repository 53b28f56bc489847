// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Config is the updater's configuration.
type Config struct {
	process.Common
	Election process.Election

	Interval             time.Duration
	MinReplicas          int
	EvictionTolerance    float64 // share of a group's replicas that may be disrupted at a time
	RateLimit            float64 // evictions a second; 0 or less is without limit
	RateBurst            int
	UpdateThreshold      float64       // relative change that makes an old pod worth updating
	LifetimeThreshold    time.Duration // how old such a pod must be
	EvictAfterOOM        time.Duration
	SkipDisruptionBudget bool // resize without restart ignores the disruption budget
	UseStatus            bool
	StatusName           string
	StatusNamespace      string
	StatusTimeout        time.Duration
	Address              string
	BoostSyncs           int // how many startup boosts end at a time
	ReplacementMustFit   bool
	DryRun               bool
}

// Defaults returns upstream's defaults.
func Defaults() Config {
	return Config{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("vpa-updater"),
		Interval: time.Minute, MinReplicas: process.DefaultMinReplicas, EvictionTolerance: 0.5, RateLimit: -1, RateBurst: 1,
		UpdateThreshold: 0.1, LifetimeThreshold: 12 * time.Hour, EvictAfterOOM: 10 * time.Minute,
		UseStatus: true, StatusName: "vpa-admission-controller", StatusTimeout: time.Minute, Address: ":8943", BoostSyncs: 1, ReplacementMustFit: true,
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// OwnFlags binds what only the updater has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.Interval, "updater-interval", c.Interval, "How often pods are compared with their recommendation.")
	fs.IntVar(&c.MinReplicas, "min-replicas", c.MinReplicas, "Least number of replicas a controller must have for its pods to be evicted.")
	fs.Float64Var(&c.EvictionTolerance, "eviction-tolerance", c.EvictionTolerance, "Share of a controller's replicas that may be disrupted at a time.")
	fs.Float64Var(&c.RateLimit, "eviction-rate-limit", c.RateLimit, "Evictions a second. 0 or less means without limit.")
	fs.IntVar(&c.RateBurst, "eviction-rate-burst", c.RateBurst, "Evictions that may come in one go.")
	fs.Float64Var(&c.UpdateThreshold, "pod-update-threshold", c.UpdateThreshold, "Relative change of requests from which a pod inside its bounds is updated.")
	fs.DurationVar(&c.LifetimeThreshold, "in-recommendation-bounds-eviction-lifetime-threshold", c.LifetimeThreshold, "How old a pod inside its bounds must be to be updated.")
	fs.DurationVar(&c.EvictAfterOOM, "evict-after-oom-threshold", c.EvictAfterOOM, "A pod is updated at once when its container was OOM-killed sooner after its start than this.")
	fs.BoolVar(&c.SkipDisruptionBudget, "in-place-skip-disruption-budget", c.SkipDisruptionBudget, "Resize in place without regard to the disruption budget when no container restarts by it.")
	fs.BoolVar(&c.UseStatus, "use-admission-controller-status", c.UseStatus, "Update pods only while the admission controller is known to work.")
	fs.StringVar(&c.StatusName, "admission-controller-status-lease-name", c.StatusName, "Name of the admission controller's status lease.")
	fs.StringVar(&c.StatusNamespace, "admission-controller-status-lease-namespace", c.StatusNamespace, "Namespace of that lease. Empty means the NAMESPACE variable, else kube-system.")
	fs.DurationVar(&c.StatusTimeout, "admission-controller-status-lease-timeout", c.StatusTimeout, "How old that lease may be.")
	fs.IntVar(&c.BoostSyncs, "concurrent-cpu-startup-boost-syncs", c.BoostSyncs, "How many pods lose their CPU startup boost at a time.")
	fs.BoolVar(&c.ReplacementMustFit, "replacement-must-fit", c.ReplacementMustFit, "Leave a pod alone when its replacement would fit on none of today's nodes. "+
		"Set to false where nodes are added on demand.")
	fs.BoolVar(&c.DryRun, "dry-run", c.DryRun, "Decide and log what would be done, and change nothing in the cluster.")
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *Config) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(), c.ValidateOwn())
}

// settle draws the consequences of a dry run: no lease is taken from those who work.
func (c *Config) settle() {
	c.ReadOnly = c.DryRun
	c.Election.Enabled = c.Election.Enabled && !c.DryRun
}

// ValidateOwn says what is wrong with what only the updater has.
func (c *Config) ValidateOwn() error {
	var errs []error
	if c.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--updater-interval is %v: give a time above 0", c.Interval))
	}
	if !(c.EvictionTolerance >= 0 && c.EvictionTolerance <= 1) {
		errs = append(errs, fmt.Errorf("--eviction-tolerance is %v: give a share from 0 to 1", c.EvictionTolerance))
	}
	if c.MinReplicas < 0 {
		errs = append(errs, fmt.Errorf("--min-replicas is %d: give 0 or more", c.MinReplicas))
	}
	if c.RateLimit > 0 && c.RateBurst < 1 {
		errs = append(errs, fmt.Errorf("--eviction-rate-burst is %d: give 1 or more, or nothing is ever evicted", c.RateBurst))
	}
	if c.BoostSyncs < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-cpu-startup-boost-syncs is %d: give 1 or more", c.BoostSyncs))
	}
	if !(c.UpdateThreshold >= 0) {
		errs = append(errs, fmt.Errorf("--pod-update-threshold is %v: give 0 or more", c.UpdateThreshold))
	}
	return errors.Join(errs...)
}
