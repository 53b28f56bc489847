// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// The rate limit is low. What the actions of one tenant take that cannot be announced is used by those of others, if not in the same pass then
// in the next one.
func TestAnnounce_oneNamespaceFailsAndRateIsLow_othersUseTheRate(t *testing.T) {
	for _, fault := range announcementFaults {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newBurst(60)
				for _, p := range g.pods[:100] { // 50 workloads
					p.Namespace, p.Top.Namespace, p.Controller.Namespace = "tenant", "tenant", "tenant"
				}
				for _, a := range g.autoscalers[:50] {
					a.Namespace, a.Target.Namespace = "tenant", "tenant"
				}
				g.config.RateLimit, g.config.RateBurst = 0.02, 1
				store := newFaultyStates(fault, time.Hour)
				store.of = func(w cluster.Workload) bool { return w.Namespace == "tenant" }
				u := g.fakeCluster.leader(t, store)
				passes(t, u, 15*time.Minute)
				if n := g.count("evict"); n < 15 || n > 19 { // the limit allows 1 + 0.02 * 900
					t.Errorf("%d evictions in 15m, want 15 to 19", n)
				}
			})
		})
	}
}
