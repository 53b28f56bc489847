// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

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
		own := pass.Decisions()[pass.at(decision.Decision{Pod: pod})]
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
