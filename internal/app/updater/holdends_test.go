// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
)

// pausedStates is a store in which the first writes of some workloads have no answer, and those of others have one after a pause.
type pausedStates struct {
	*memoryStates
	hang  map[string]bool
	pause time.Duration
}

func (s *pausedStates) Write(ctx context.Context, now time.Time, state *ledger.State) (bool, error) {
	if s.hang[state.Workload.Name] {
		<-ctx.Done()
		return false, ctx.Err()
	}
	time.Sleep(s.pause)
	return s.memoryStates.Write(ctx, now, state)
}

type slowDryRuns struct {
	dryRuns hangingDryRuns
	of      func(*cluster.Pod) time.Duration
}

func (d slowDryRuns) DryRun(ctx context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	time.Sleep(d.of(p))
	return d.dryRuns.DryRun(ctx, p)
}

// Writes in a namespace fail, and one that was in progress succeeds a moment later. Actions that were held when their turn came have taken
// nothing from the rate limit, so they are not carried out in this pass.
func TestAnnounce_holdEndsDuringADryRun_rateLimitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBurst(60)
		for _, p := range g.pods {
			p.Created = p.Created.Add(-time.Hour)
		}
		g.config.RateLimit, g.config.RateBurst = 1e-6, 12
		store := &pausedStates{newMemoryStates(), map[string]bool{}, 0}
		u := g.fakeCluster.leader(t, store)
		u.actuators.replacements = slowDryRuns{hangingDryRuns{g.fakeCluster, "none"}, func(p *cluster.Pod) time.Duration {
			if store.hang[p.Top.Name] {
				return time.Second
			}
			return 3 * time.Second
		}}
		all := g.autoscalers
		g.autoscalers, g.admits = all[len(all)-1:], false
		passes(t, u, 2*time.Minute) // one eviction has no effect, so others need a dry run
		if n := g.count("evict"); n != 1 {
			t.Fatalf("%d evictions at first, want 1", n)
		}
		g.autoscalers, g.admits = all, true
		for _, name := range []string{"web-0", "web-1", "web-10", "web-11", "web-12"} {
			store.hang[name] = true
		}
		store.pause = 4500 * time.Millisecond
		u.pass(t.Context(), time.Now())
		if n := g.count("evict"); n > 12 || n < 5 {
			t.Errorf("%d evictions, want some, and 12 at most", n)
		}
	})
}
