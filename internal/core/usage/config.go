// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// Config has the parameters of aggregation.
type Config struct {
	CPUHalfLife    time.Duration // --cpu-histogram-decay-half-life
	MemoryHalfLife time.Duration // --memory-histogram-decay-half-life
	MemoryInterval time.Duration // --memory-aggregation-interval: each container adds one memory peak per interval
	MemoryCount    int64         // --memory-aggregation-interval-count: how many intervals history lasts
	OOMBumpRatio   float64       // --oom-bump-up-ratio
	OOMMinBump     int64         // --oom-min-bump-up-bytes

	Runs     bool // --size-by-run: the last runs of the containers of Jobs and CronJobs are kept
	InitRuns bool // the last runs of ordinary init containers are kept; without it, init containers are not measured
}

// DefaultConfig returns upstream's defaults, and the parameters of podfit.
func DefaultConfig() Config {
	return Config{
		CPUHalfLife:    24 * time.Hour,
		MemoryHalfLife: 24 * time.Hour,
		MemoryInterval: 24 * time.Hour,
		MemoryCount:    8,
		OOMBumpRatio:   1.2,
		OOMMinBump:     100 << 20,
		Runs:           true,
		InitRuns:       true,
	}
}

// rules are the parameters that an autoscaler may set for a container.
type rules struct {
	interval time.Duration
	count    int64
	ratio    float64
	minBump  int64
}

// keep returns how long history is kept after its last sample, at most the longest duration.
func (r *rules) keep() time.Duration {
	length, _ := integer.Scaled(int64(r.interval), r.count, 1)
	return time.Duration(length)
}

func overrides(p cluster.ContainerPolicy) bool {
	return p.MemoryInterval > 0 || p.MemoryCount > 0 || p.OOMBumpRatio > 0 || p.OOMMinBumpSet
}

func (r rules) with(policy *cluster.ContainerPolicy) rules {
	if policy == nil {
		return r
	}
	r.interval = cmp.Or(max(policy.MemoryInterval, 0), r.interval)
	r.count = cmp.Or(max(policy.MemoryCount, 0), r.count)
	if policy.OOMBumpRatio > 0 {
		r.ratio = policy.OOMBumpRatio
	}
	if policy.OOMMinBumpSet {
		r.minBump = policy.OOMMinBump
	}
	return r
}
