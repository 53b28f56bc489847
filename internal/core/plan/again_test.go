// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A pod whose resize was refused has its turn to be evicted minutes later, during the back-off of the resize. The resize is tried once more
// first, and the eviction follows in the same pass if it is refused again.
func TestPass_oldRefusalAndPodMayBeEvicted_resizeIsTriedOnceMore(t *testing.T) {
	for name, tt := range map[string]struct {
		kind  decision.RefusalKind
		after time.Duration // since the last refusal
		want  decision.Act
	}{
		"refused a moment ago":        {decision.Denied, time.Minute, decision.Evict},
		"refused ten minutes ago":     {decision.Denied, 10 * time.Minute, decision.Resize},
		"webhook was down for long":   {decision.WebhookFailed, 10 * time.Minute, decision.Resize},
		"resizes are not supported":   {decision.Unsupported, 10 * time.Minute, decision.Evict},
		"after the end of a back-off": {decision.Denied, 2 * time.Hour, decision.Resize},
	} {
		w, a := growing(3)
		b := DefaultBudget()
		b.Tolerance = 1
		w.Ledger = ledger.New()
		pod := w.Governed[0].Pods[0]
		with := Begin(noon, w, b).Decisions()[0].With
		for range 8 {
			w.Ledger.Refused(noon, ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Resize, With: with}, decision.Refusal{Kind: tt.kind, Text: "denied"}, 3)
		}
		pass := Begin(noon.Add(tt.after), w, b)
		own := *pass.entryOf(pod).Decision
		if own.Do != tt.want {
			t.Errorf("%s: %s (%s), want %s", name, own.Do, own.Reason, tt.want)
			continue
		}
		if tt.want != decision.Resize {
			continue
		}
		next := pass.Refused(own, decision.Refusal{Kind: tt.kind, Text: "denied"})
		if len(next) != 1 || next[0].Pod != pod || next[0].Do != decision.Evict {
			t.Errorf("%s: refused again: %v, want the eviction of the pod", name, next)
		}
	}
}

// A resize that is tried once more before the pod is evicted asks for the full size, also on a full node: the refusal of a part would not
// lead to the eviction, so the pod would never get its new size.
func TestPass_resizeIsTriedOnceMoreOnFullNode_asksForFullSize(t *testing.T) {
	for name, tt := range map[string]struct {
		attempts int
		part     bool
	}{
		"no refusal":        {0, true},
		"first refusal":     {1, true},
		"repeated refusals": {8, false},
	} {
		w, a := growing(3)
		w.Nodes = []cluster.Node{{Name: "a", Ready: true, Allocatable: cluster.Amounts(1000, 2<<30)}}
		w.Pods = w.Governed[0].Pods
		b := DefaultBudget()
		b.Tolerance, b.MustFit = 1, false
		pod := w.Governed[0].Pods[0]
		for range tt.attempts {
			tried := ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Resize, With: Begin(noon, w, b).Decisions()[0].With}
			w.Ledger.Refused(noon, tried, decision.Refusal{Kind: decision.ServerBusy, Text: "conflict"}, 3)
		}
		pass := Begin(noon.Add(10*time.Minute), w, b)
		own := *pass.entryOf(pod).Decision
		if own.Do != decision.Resize || own.Reason.Part != tt.part || own.Fallback == tt.part {
			t.Errorf("%s: %s (%s), a part: %t, evicted if it is refused: %t", name, own.Do, own.Reason, own.Reason.Part, own.Fallback)
		}
	}
}

// The stale watch shows a resized pod with its earlier requests: the resize is not reported as undone. If the watch has shown the new
// requests before, another client has set the earlier ones.
func TestPlan_watchDoesNotShowResizeYet_podIsNotReportedAsUndone(t *testing.T) {
	for name, tt := range map[string]struct {
		shown bool
		after time.Duration
		want  decision.ReasonCode
	}{
		"not shown yet":           {false, time.Minute, decision.ResizeRunning},
		"shown, and undone since": {true, time.Minute, decision.BackingOff},
		"not shown for long":      {false, 5*time.Minute + time.Second, decision.BackingOff},
	} {
		w, a := growing(3)
		b := DefaultBudget()
		b.Tolerance, b.BackoffBase = 1, 10*time.Minute
		pod := w.Governed[0].Pods[0]
		before := pod.Containers[0].Requests
		pass := Begin(noon, w, b)
		d := *pass.entryOf(pod).Decision
		pass.Done(d)
		if tt.shown {
			pod.Containers[0].Requests = d.With[0].Requests
		}
		pass.Learn()
		pod.Containers[0].Requests = before
		pass = Begin(noon.Add(tt.after), w, b)
		if d := *pass.entryOf(pod).Decision; d.Do != decision.Leave || d.Reason.Code != tt.want {
			t.Errorf("%s: %s because %s, want %s; the autoscaler is %s", name, d.Do, d.Reason, tt.want, a.Key)
		}
	}
}
