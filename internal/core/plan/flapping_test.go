// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// refusing runs a pass in which a disruption budget refuses all evictions, and reports whether the eviction of a pod was tried.
func refusing(now time.Time, w World, b Budget, of *cluster.Pod) (tried bool) {
	pass := Begin(now, w, b)
	for ds := evictions(pass); len(ds) > 0; ds = ds[1:] {
		tried = tried || ds[0].Pod == of
		ds = append(ds, pass.Refused(ds[0], decision.Refusal{Kind: decision.DeniedByBudget})...)
	}
	return tried
}

// Two of six pods are OOM-killed again and again, so that three to five pods are ready. The disruption budget requires six. That more pods
// are ready than at the last attempt is no reason for another one if the budget has refused an eviction with as many before.
func TestPass_readinessFlapsBelowTheBudget_oneAttemptForEachBackOff(t *testing.T) {
	w, _ := shrinking(6)
	pods := w.Governed[0].Pods
	b := DefaultBudget()
	b.Tolerance = 1
	pods[5].Ready = false
	var attempts []int
	for minute := range 24 * 60 {
		pods[3].Ready, pods[4].Ready = minute%4 >= 2, (minute+3)%4 >= 2
		if refusing(noon.Add(time.Duration(minute)*time.Minute), w, b, pods[0]) {
			attempts = append(attempts, minute)
		}
	}
	const (
		backOffs = 7 + (24*60-127)/90 // 1 to 64 minutes, and the longest ones
		early    = 2 * 3              // two with each number of ready pods
	)
	if len(attempts) < backOffs-1 || len(attempts) > backOffs+early {
		t.Errorf("the eviction is tried %d times in a day, in minutes %v; want about %d", len(attempts), attempts, backOffs)
	}
}

// The status of the disruption budget may count a pod later than podfit: the first attempt after it became ready may be too early.
func TestPass_budgetCountsReadyPodLater_nextPassTriesAgain(t *testing.T) {
	w, _ := shrinking(3)
	pods := w.Governed[0].Pods
	b := DefaultBudget()
	b.Tolerance = 1
	pods[2].Ready = false
	now := noon
	for range 8 { // the back-off is longer than an hour now
		if !refusing(now, w, b, pods[0]) {
			t.Fatal("the eviction is not tried after the back-off")
		}
		last, _ := w.Ledger.LastFailure(pods[0], decision.Evict)
		now = last.Until(b.Delays)
	}
	last, _ := w.Ledger.LastFailure(pods[0], decision.Evict)
	pods[2].Ready = true
	now = last.At
	for i, want := range []bool{true, true, false, false} {
		now = now.Add(time.Minute)
		if got := refusing(now, w, b, pods[0]); got != want {
			t.Errorf("pass %d after another pod became ready: tried: %t, want %t", i+1, got, want)
		}
	}
}

// A disruption budget allows the eviction of a pod that is not ready if enough other pods are. So the ready pods without the pod itself
// count.
func TestPass_refusedPodIsNoLongerReadyAndAnotherOneIs_triesAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after []bool // ready, by pod; the eviction of the first one is refused
		want          bool
	}{
		"another pod is ready instead":      {[]bool{true, true, false}, []bool{false, true, true}, true},
		"the pod itself is ready":           {[]bool{false, true, false}, []bool{true, true, false}, false},
		"another pod is not ready any more": {[]bool{true, true, false}, []bool{true, false, false}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := shrinking(3)
			pods := w.Governed[0].Pods
			b := DefaultBudget()
			b.Tolerance = 1
			ready := func(of []bool) {
				for i := range of {
					pods[i].Ready, pods[i].ReadySince = of[i], noon.Add(-time.Minute)
				}
			}
			ready(tt.before)
			b.StuckFor = 0 // a pod that is not ready may be evicted
			if !refusing(noon, w, b, pods[0]) {
				t.Fatal("the eviction is not tried")
			}
			ready(tt.after)
			if got := refusing(noon.Add(30*time.Second), w, b, pods[0]); got != tt.want {
				t.Errorf("tried: %t, want %t", got, tt.want)
			}
		})
	}
}

// After a scale-down, a disruption budget may require fewer pods.
func TestPass_scaledDownAfterRefusal_oldNumberOfReadyPodsDoesNotCount(t *testing.T) {
	w, _ := shrinking(10)
	pods := w.Governed[0].Pods
	b := DefaultBudget()
	b.Tolerance = 1
	if !refusing(noon, w, b, pods[0]) {
		t.Fatal("the eviction is not tried")
	}
	w.Governed[0].Pods = pods[:4]
	w.Scales[pods[0].Controller] = cluster.Scale{Known: true, Replicas: 4}
	pods[3].Ready = false
	if !refusing(noon.Add(time.Hour), w, b, pods[0]) {
		t.Fatal("the eviction is not tried after the back-off")
	}
	pods[3].Ready = true
	if !refusing(noon.Add(time.Hour+30*time.Second), w, b, pods[0]) {
		t.Error("the eviction is not tried although all pods are ready")
	}
}
