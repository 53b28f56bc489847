// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
)

// If a disruption budget refused an eviction, it is tried again at once when more pods are ready. Such early attempts do not let the
// back-off grow: pods that become ready one by one would otherwise delay the next attempt for an hour.
func TestPass_budgetRefusesEarlyAttempts_backOffDoesNotGrow(t *testing.T) {
	w, _ := shrinking(6)
	pods := w.Governed[0].Pods
	b := DefaultBudget()
	b.Tolerance = 1
	for i := range pods[1:] {
		pods[i+1].Ready = false
	}
	now := noon
	for ready := 1; ready <= 5; ready++ {
		pods[ready-1].Ready = true
		if !refusing(now, w, b, pods[0]) {
			t.Fatalf("%d ready pods: the eviction is not tried", ready)
		}
		now = now.Add(10 * time.Second)
	}
	last, _ := w.Ledger.LastFailure(pods[0], decision.Evict)
	if last.Attempts != 1 {
		t.Errorf("%d attempts count, want 1", last.Attempts)
	}
	now = last.Until(b.Delays)
	if wait := now.Sub(last.At); wait != b.RefusalBase {
		t.Errorf("the next attempt is possible after %v, want %v", wait, b.RefusalBase)
	}
	refusing(now, w, b, pods[0])
	if last, _ = w.Ledger.LastFailure(pods[0], decision.Evict); last.Attempts != 2 {
		t.Errorf("%d attempts count after one at the end of the back-off, want 2", last.Attempts)
	}
}
