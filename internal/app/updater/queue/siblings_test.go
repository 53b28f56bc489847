// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// All growing pods of a node with a resize that hangs wait together, and later ones do not wait. Ends of startup boosts do not wait, and no pod
// waits for them.
func TestSiblings_shrinkHangs_nodeWaitsOnceInAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(millicores int64) *cluster.Pod {
			return &cluster.Pod{Node: "n", Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(millicores, 100<<20)}}}
		}
		large, other := pod(2000), pod(1000)
		size := func(millicores int64) []policy.Fitted {
			return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(millicores, 100<<20)}}
		}
		s := NewSiblings()
		s.Sent(&decision.Decision{Pod: large, Do: decision.Resize, With: size(1000)})
		began := time.Now()
		var growths sync.WaitGroup
		for range 20 {
			growths.Go(func() { s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Resize, With: size(2000)}) })
		}
		growths.Wait()
		s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Resize, With: size(2000)})
		if waited := time.Since(began); waited != shrinkPatience {
			t.Errorf("the growing pods waited for %v, want %v", waited, shrinkPatience)
		}
		s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Resize, With: size(500)})
		s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Evict, With: size(2000)})
		s.impatient = map[string]bool{}
		s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Resize, With: size(2000), Unboost: []string{"app"}})
		s.Answered(&decision.Decision{Pod: large, Do: decision.Resize, With: size(1000)})
		s.Sent(&decision.Decision{Pod: large, Do: decision.Resize, With: size(1000), Unboost: []string{"app"}})
		s.AfterShrinks(&decision.Decision{Pod: other, Do: decision.Resize, With: size(2000)})
		if waited := time.Since(began); waited != shrinkPatience || s.shrinking["n"] != 0 {
			t.Errorf("after %v, %d resizes lower requests", waited, s.shrinking["n"])
		}
	})
}
