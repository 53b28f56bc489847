// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"context"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A Sampler reads the present usage of containers.
type Sampler interface {
	Samples(context.Context) ([]usage.Sample, error)
}

// Usage keeps the usage that the recommender has read last. It is safe for several goroutines. A nil Usage has none.
type Usage struct {
	mu   sync.Mutex
	last []usage.Sample
}

// Watch returns a sampler whose samples the Usage keeps.
func (u *Usage) Watch(s Sampler) Sampler { return &watched{s, u} }

type watched struct {
	Sampler
	to *Usage
}

// Samples implements Sampler.
func (w *watched) Samples(ctx context.Context) ([]usage.Sample, error) {
	samples, err := w.Sampler.Samples(ctx)
	if err == nil {
		w.to.mu.Lock()
		w.to.last = samples // nobody changes them
		w.to.mu.Unlock()
	}
	return samples, err
}

// byPod returns the present usage of each pod.
func (u *Usage) byPod(now time.Time) map[cluster.Key]cluster.Resources {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	samples := u.last
	u.mu.Unlock()
	return capacity.UsageByPod(samples, now)
}
