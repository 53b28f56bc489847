// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
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
		kind decision.RefusalKind
		want decision.ReasonCode
	}{
		"webhook denies":                        {cluster.InPlaceOrRecreate, decision.Denied, decision.NotReady},
		"API server does not support it":        {cluster.InPlaceOrRecreate, decision.Unsupported, decision.NotReady},
		"webhook fails for the first time":      {cluster.InPlaceOrRecreate, decision.WebhookFailed, decision.ResizeRefused},
		"quota, which would refuse replacement": {cluster.InPlaceOrRecreate, decision.DeniedByQuota, decision.ResizeOverQuota},
		"mode without evictions":                {cluster.InPlace, decision.Denied, decision.ResizeRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := DefaultBudget()
			b.InPlace = true
			w := world(tt.mode)
			for minute := range 100 {
				now := noon.Add(time.Duration(minute) * time.Minute)
				pass := Begin(now, w, b)
				pass.Learn()
				for _, d := range actions(pass) {
					if next := pass.Refused(d, decision.Refusal{Kind: tt.kind, Text: "not now"}); len(next) > 0 {
						t.Fatalf("minute %d: %s %s", minute, next[0].Do, next[0].Pod.Name)
					}
					got := *pass.entryOf(d.Pod).Decision
					if got.Do != decision.Leave || got.Reason.Code != tt.want {
						t.Fatalf("minute %d: %s %s because %s, want %s", minute, got.Do, got.Pod.Name, got.Reason, tt.want)
					}
					if held := got.Refused.Code == decision.ResizeRefused && got.Refused.Text == "not now"; held != (tt.want == decision.NotReady) {
						t.Fatalf("minute %d: the refusal is %q", minute, got.Refused)
					}
				}
				if tt.kind == decision.WebhookFailed {
					break // it counts as refused later
				}
			}
		})
	}
}

// With a rate limit of one action per pass, a resize that needs room is tried although resizes on its node that would give room are
// refused in each pass.
func TestPlan_shrinksAreRefusedAndRateIsLimited_growthIsTried(t *testing.T) {
	w, down := shrinking(5)
	down.Mode = cluster.InPlaceOrRecreate
	grown, up := shrinking(2)
	up.Mode, up.Namespace = cluster.InPlaceOrRecreate, "bank"
	up.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(4000, 4<<30), Target: cluster.Amounts(5000, 5<<30), Upper: cluster.Amounts(6000, 6<<30)}
	g := grown.Governed[0]
	for _, p := range g.Pods {
		p.Namespace, p.UID = "bank", "bank-"+p.UID
		p.Controller.Namespace, p.Top.Namespace = "bank", "bank"
	}
	w.Governed = append(w.Governed, g)
	w.Scales[g.Pods[0].Controller] = cluster.Scale{Known: true, Replicas: 2}
	w.Nodes = []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(100_000, 100<<30), Ready: true}}
	for _, governed := range w.Governed {
		w.Pods = append(w.Pods, governed.Pods...)
	}
	tried := 0
	for i := range 15 {
		now := noon.Add(time.Duration(i) * 2 * time.Minute)
		pass := Begin(now, w, DefaultBudget())
		pass.Learn()
		if acts := actions(pass); len(acts) > 0 {
			if acts[0].Autoscaler == up {
				tried++
			}
			pass.Refused(acts[0], decision.Refusal{Kind: decision.NotReached})
		}
	}
	if tried < 4 {
		t.Errorf("a resize that needs room is tried in %d of 15 passes, want at least 4", tried)
	}
}
