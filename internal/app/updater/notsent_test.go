// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// throttledStates is a store whose writes in namespace tenant get status 429 with Retry-After. It holds back all writes for 30 s, as
// kube.Throttle does.
type throttledStates struct {
	*memoryStates
	until time.Time // of the fault

	mu    sync.Mutex
	pause time.Time
}

func (s *throttledStates) Write(ctx context.Context, now time.Time, state *ledger.State) (bool, error) {
	s.mu.Lock()
	pause := s.pause
	s.mu.Unlock()
	if end, ends := ctx.Deadline(); ends && end.Before(pause) {
		return false, kube.WithReason(kube.ErrNotSent, errors.New("the API server is overloaded"))
	}
	time.Sleep(time.Until(pause) + 20*time.Millisecond)
	if state.Workload.Namespace != "tenant" || !time.Now().Before(s.until) {
		return s.memoryStates.Write(ctx, now, state)
	}
	s.mu.Lock()
	s.pause = time.Now().Add(30 * time.Second)
	s.mu.Unlock()
	<-ctx.Done() // the client repeats the request
	return false, ctx.Err()
}

// The writes for one tenant get status 429 with Retry-After, so that those for others are not sent for that time. They have not failed, so the
// others are not held longer than that.
func TestAnnounce_oneNamespaceIsThrottled_othersAreNotHeldForLong(t *testing.T) {
	for _, others := range []int{3, 30} {
		t.Run(fmt.Sprintf("%d others", others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newBurst(30 + others)
				for _, p := range g.pods[:60] { // 30 workloads
					p.Namespace, p.Top.Namespace, p.Controller.Namespace = "tenant", "tenant", "tenant"
				}
				for _, a := range g.autoscalers[:30] {
					a.Namespace, a.Target.Namespace = "tenant", "tenant"
				}
				store := &throttledStates{memoryStates: newMemoryStates(), until: time.Now().Add(time.Hour)}
				u := g.fakeCluster.leader(t, store)
				passes(t, u, 20*time.Minute)
				if n := g.count("evict"); n != 2*others {
					t.Errorf("%d evictions of others in 20m, want all %d", n, 2*others)
				}
			})
		})
	}
}
