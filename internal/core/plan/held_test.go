// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A resize that only lowers requests needs no budget, but the eviction instead of it does. The next attempt to resize is not what the
// pod waits for: the eviction follows as soon as the other pods are ready.
func TestPass_refusedResizeAndOtherPodsNotReady_reasonIsWhatBlocksTheEviction(t *testing.T) {
	world := func(mode cluster.Mode) World {
		w, a := shrinking(4)
		a.Mode = mode
		for _, i := range []int{1, 3} {
			p := w.Governed[0].Pods[i]
			p.Ready, p.Containers[0].Requests = false, cluster.Amounts(100, 128<<20)
		}
		return w
	}
	tests := map[string]struct {
		mode cluster.Mode
		kind RefusalKind
		want ReasonCode
	}{
		"webhook denies":                        {cluster.InPlaceOrRecreate, Denied, NotReady},
		"API server does not support it":        {cluster.InPlaceOrRecreate, Unsupported, NotReady},
		"webhook fails for the first time":      {cluster.InPlaceOrRecreate, WebhookFailed, ResizeRefused},
		"quota, which would refuse replacement": {cluster.InPlaceOrRecreate, DeniedByQuota, ResizeOverQuota},
		"mode without evictions":                {cluster.InPlace, Denied, ResizeRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := DefaultBudget()
			b.InPlace = true
			w := world(tt.mode)
			for minute := range 100 {
				now := noon.Add(time.Duration(minute) * time.Minute)
				pass := Begin(now, w, b)
				w.Ledger.Learn(now, w, pass.Decisions())
				for _, d := range actions(pass) {
					if next := pass.Refused(d, Refusal{Kind: tt.kind, Text: "not now"}); len(next) > 0 {
						t.Fatalf("minute %d: %s %s", minute, next[0].Do, next[0].Pod.Name)
					}
					got := pass.Decisions()[pass.at(d)]
					if got.Do != Leave || got.Reason.Code != tt.want {
						t.Fatalf("minute %d: %s %s because %s, want %s", minute, got.Do, got.Pod.Name, got.Reason, tt.want)
					}
					if held := got.Refused.Code == ResizeRefused && got.Refused.Text == "not now"; held != (tt.want == NotReady) {
						t.Fatalf("minute %d: the refusal is %q", minute, got.Refused)
					}
				}
				if tt.kind == WebhookFailed {
					break // it counts as refused later
				}
			}
		})
	}
}
