// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// outdated is the age of samples that are not present any more.
const outdated = 10 * time.Minute

// The largest values of a container that are believed.
const (
	mostCores = 1e6
	mostBytes = 1e15
)

// UsageByPod returns the present usage of each pod.
func UsageByPod(samples []usage.Sample, now time.Time) map[cluster.Key]cluster.Resources {
	out := make(map[cluster.Key]cluster.Resources)
	for i := range samples {
		s := &samples[i]
		if now.Sub(s.At) > outdated {
			continue
		}
		used := out[s.Pod]
		if s.Has.Has(cluster.CPU) && s.CPU >= 0 && s.CPU < mostCores {
			used = used.Set(cluster.CPU, used.CPU+int64(s.CPU*1000))
		}
		if s.Has.Has(cluster.Memory) && s.Memory >= 0 && s.Memory < mostBytes {
			used = used.Set(cluster.Memory, used.Memory+int64(s.Memory))
		}
		out[s.Pod] = used
	}
	return out
}
