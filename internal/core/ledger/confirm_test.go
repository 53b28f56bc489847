// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/decision"
)

// The API server carries out each resize, but its answers are lost, and another program undoes the resizes. Only the back-off of undone
// resizes grows, and none of the resizes counts as unanswered when the pod has the requests.
func TestLedger_resizeWithoutAnswerWasCarriedOut_countsAsDone(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	for i := range 3 {
		now := noon.Add(time.Duration(i) * 30 * time.Minute)
		l.Refused(now, Attempt{Pod: pod, Do: decision.Resize, With: fits(100)}, decision.Refusal{Kind: decision.OutcomeIsUnknown, Text: "reset"}, 1)
		if _, failed := l.LastFailure(pod, decision.Resize); !failed {
			t.Fatal("the missing answer is not recorded")
		}
		before := wants(fits(100), pod)
		l.Learn(now, viewOf(1, pod), before)
		if _, failed := l.LastFailure(pod, decision.Resize); !failed {
			t.Fatal("the pod has other requests, and the resize counts as carried out")
		}
		resized := withCPU(pod, pod.UID, pod.Created, 100)
		l.Learn(now.Add(time.Minute), viewOf(1, resized), wants(fits(100), resized))
		if r, failed := l.LastFailure(resized, decision.Resize); failed {
			t.Errorf("the pod has the requests, and the resize has no answer: %+v", r)
		}
		if n, at := l.Undone(pod), l.LastResize(pod); n != i+1 || !at.Equal(now) {
			t.Errorf("after %d resizes: %d undone, the last at %v", i+1, n, at)
		}
	}
	l.Refused(noon.Add(2*time.Hour), Attempt{Pod: pod, Do: decision.Resize, With: fits(100)}, decision.Refusal{Kind: decision.Denied, Text: "no"}, 1)
	resized := withCPU(pod, pod.UID, pod.Created, 100)
	l.Learn(noon.Add(2*time.Hour), viewOf(1, resized), wants(fits(100), resized))
	if _, failed := l.LastFailure(pod, decision.Resize); !failed {
		t.Error("the refusal was deleted after another client resized the pod")
	}
}
