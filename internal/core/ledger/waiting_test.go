// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// left returns the decision to leave a pod that should change.
func left(pod string, r decision.Reason) decision.Decision {
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	return decision.Decision{
		Pod: &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: pod}, UID: pod, Top: top, Controller: top}, Reason: r, Wanted: decision.Reason{Code: decision.BelowRange},
	}
}

func TestPassEnded_podsThatWait_areExportedByReason(t *testing.T) {
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	changed := left("d", decision.Reason{})
	changed.Do = decision.Resize
	fits := left("e", decision.Reason{Code: decision.SmallChange})
	fits.Wanted = decision.Reason{}
	l := New()
	l.PassEnded([]decision.Decision{
		left("c", decision.Reason{Code: decision.BackingOff, Until: at.Add(time.Hour)}), changed, fits,
		left("b", decision.Reason{Code: decision.TooFewReplicas}), left("a", decision.Reason{Code: decision.BackingOff, Until: at}),
	})
	states := l.Export(attempt.Delays{})
	if len(states) != 1 {
		t.Fatalf("states %+v, want one", states)
	}
	want := []WaitingState{{Reason: "BackingOff", Pods: 2, First: "a", NotBefore: at}, {Reason: "TooFewReplicas", Pods: 1, First: "b"}}
	if diff := gocmp.Diff(want, states[0].Waiting); diff != "" {
		t.Errorf("waiting pods (-want +got):\n%s", diff)
	}
	l.PassEnded(nil)
	if got := l.Export(attempt.Delays{}); len(got) != 0 {
		t.Errorf("states %+v after a pass in which no pod waits", got)
	}
}

// The record is bounded by the number of reasons, whatever the number of pods.
func TestPassEnded_manyPodsAndReasons_recordIsBounded(t *testing.T) {
	var ds []decision.Decision
	for i := range 10_000 {
		ds = append(ds, left(fmt.Sprintf("web-%d", i), decision.Reason{Code: decision.ModeOff + decision.ReasonCode(i%40)}))
	}
	l := New()
	l.PassEnded(ds)
	if n := len(l.Export(attempt.Delays{})[0].Waiting); n != maxWaiting {
		t.Errorf("%d reasons are exported, want %d", n, maxWaiting)
	}
}

// After a restart the pods are decided on again.
func TestRestore_waitingPods_areIgnored(t *testing.T) {
	l := New()
	l.Restore(time.Now(), []State{{Workload: cluster.Workload{Kind: "Deployment", Name: "web"}, Waiting: []WaitingState{{Reason: "BackingOff", Pods: 1}}}})
	if got := l.Export(attempt.Delays{}); len(got) != 0 {
		t.Errorf("states %+v, want none", got)
	}
}
