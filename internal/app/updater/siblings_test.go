// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// slowQuota is a fakeCluster in which a webhook denies the resize of the first pod at once, and the resizes of the others have another
// answer after a while.
type slowQuota struct {
	*fakeCluster
	takes  time.Duration
	answer error
}

func (q slowQuota) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	if p.Name == "web-0" {
		return fmt.Errorf("resize: %w", kube.ErrDenied)
	}
	select {
	case <-time.After(q.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if q.answer != nil {
		return fmt.Errorf("resize: %w", q.answer)
	}
	return q.fakeCluster.Resize(ctx, p, with)
}

// The resizes of a controller are sent at the same time. While some have no answer yet, a quota may refuse them, and would then refuse
// the replacement of a pod whose resize a webhook denies.
func TestUpdater_quotaRefusesSiblingWhileEvictionIsPlanned_podIsNotEvicted(t *testing.T) {
	tests := map[string]struct {
		takes  time.Duration
		answer error
		want   int // evictions
	}{
		"quota refuses at once":   {0, kube.ErrQuota, 0},
		"quota refuses later":     {5 * time.Second, kube.ErrQuota, 0},
		"others are resized":      {5 * time.Second, nil, 1},
		"others are denied later": {5 * time.Second, kube.ErrDenied, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.InPlaceOrRecreate)
				fake.config.Budget.Tolerance = 1
				pods := slowQuota{fake, tt.takes, tt.answer}
				u := newUpdater(fake.config, fake, pods, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				u.pass(ctx, time.Now())
				if got := fake.count("evict "); got != tt.want {
					t.Errorf("%d evictions, want %d: %q", got, tt.want, fake.done)
				}
			})
		})
	}
}

// While all workers wait for answers about pods of another controller, the resizes of this one are still in the queue. An eviction that
// depends on them waits, unless the rate limit may not allow them in this pass.
func TestUpdater_resizesOfSiblingsAreQueued_evictionWaitsForThem(t *testing.T) {
	tests := map[string]struct {
		rate float64 // resizes in a second; 0: no limit
		want int     // evictions
	}{
		"without a rate limit": {0, 0},
		"with a rate limit":    {0.01, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.InPlaceOrRecreate)
				fake.config.Budget.Tolerance = 1
				for n := range maxWorkers {
					o := *fake.pods[0]
					o.Name, o.UID = fmt.Sprintf("web-0-%02d", n), fmt.Sprintf("other-%d", n)
					o.Controller.Name = "web-2"
					fake.pods = append(fake.pods, &o)
				}
				pods := slowQuota{fake, 5 * time.Second, kube.ErrQuota}
				fake.config.RateLimit = tt.rate
				u := newUpdater(fake.config, fake, pods, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				u.pass(ctx, time.Now())
				if got := fake.count("evict web-0"); got != tt.want {
					t.Errorf("%d evictions, want %d: %q", got, tt.want, fake.done)
				}
			})
		})
	}
}
