// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// growing returns a world with pods that have 100m and 128Mi, and should have 1 and 1Gi. podfit cannot read the quotas.
func growing(replicas int) (World, *cluster.Autoscaler) {
	w, a := shrinking(replicas)
	a.Mode = cluster.InPlaceOrRecreate
	a.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(500, 512<<20), Target: cluster.Amounts(1000, 1<<30), Upper: cluster.Amounts(2000, 2<<30)}
	for _, p := range w.Governed[0].Pods {
		p.Containers[0].Requests = cluster.Amounts(100, 128<<20)
	}
	return w, a
}

// A quota that has refused the resize of a pod would refuse the replacement of another pod that grows as much. So that pod is not
// evicted, although a webhook denied its resize, or its node is too small.
func TestPass_quotaRefusesResizeOfSibling_podIsNotEvicted(t *testing.T) {
	tests := map[string]struct {
		kind   decision.RefusalKind
		change func(*World)
		after  time.Duration // since the quota refused the resize
		evicts bool
	}{
		"webhook denies":             {kind: decision.Denied},
		"node is too small":          {kind: decision.DeniedByNode},
		"ten minutes later":          {kind: decision.Denied, after: 10 * time.Minute},
		"an hour later":              {kind: decision.Denied, after: time.Hour, evicts: true},
		"quotas are known":           {kind: decision.Denied, evicts: true, change: func(w *World) { w.Limits = map[string]policy.Limits{"shop": {Quotas: &cluster.Quotas{}}} }},
		"the other pod grows less":   {kind: decision.Denied, evicts: true, change: func(w *World) { w.Governed[0].Pods[1].Containers[0].Requests = cluster.Amounts(300, 256<<20) }},
		"quota refuses less of both": {kind: decision.Denied, change: func(w *World) { w.Governed[0].Pods[0].Containers[0].Requests = cluster.Amounts(300, 256<<20) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, _ := growing(4)
			if tt.change != nil {
				tt.change(&w)
			}
			b := DefaultBudget()
			b.Tolerance = 1
			pods := w.Governed[0].Pods
			pass := Begin(noon, w, b)
			for _, d := range actions(pass) {
				if d.Pod == pods[0] {
					pass.Refused(d, decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute"})
				}
			}
			if tt.after > 0 {
				pass = Begin(noon.Add(tt.after), w, b)
			}
			var next []decision.Decision
			for _, d := range pass.Decisions() {
				if d.Pod == pods[1] && d.Do == decision.Resize {
					next = pass.Refused(d, decision.Refusal{Kind: tt.kind, Text: "denied"})
					break
				}
			}
			evicts := false
			for _, d := range next {
				evicts = evicts || d.Pod == pods[1] && d.Do == decision.Evict
			}
			own := *pass.entryOf(pods[1]).Decision
			if evicts != tt.evicts {
				t.Fatalf("evicted: %t, want %t: %s because %s", evicts, tt.evicts, own.Do, own.Reason)
			}
			want := decision.Reason{Code: decision.OverQuota, Text: "exceeded quota: compute"}
			if !tt.evicts && (own.Do != decision.Leave || own.Reason != want) {
				t.Errorf("%s because %s, want %s", own.Do, reasonData(own.Reason), reasonData(want))
			}
		})
	}
}

// An eviction that is planned is not sent any more when a quota refuses the resize of another pod in the same pass.
func TestPass_quotaRefusesSiblingAfterEvictionIsPlanned_overQuotaIsReported(t *testing.T) {
	for name, quotas := range map[string]*cluster.Quotas{"quotas are not known": nil, "quotas are known": {}} {
		w, a := growing(4)
		w.Limits = map[string]policy.Limits{"shop": {Quotas: quotas}}
		b := DefaultBudget()
		b.Tolerance = 1
		pass := Begin(noon, w, b)
		resizes := actions(pass)
		planned := pass.Refused(resizes[0], decision.Refusal{Kind: decision.Denied, Text: "denied"})
		if len(planned) != 1 || planned[0].Do != decision.Evict {
			t.Fatalf("%s: %v, want an eviction", name, planned)
		}
		if why, over := pass.OverQuota(planned[0]); over {
			t.Errorf("%s: before the refusal: %s", name, why)
		}
		pass.Refused(resizes[1], decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute"})
		why, over := pass.OverQuota(planned[0])
		if want := quotas == nil; over != want || pass.DependsOnResizes(planned[0]) != want {
			t.Errorf("%s: over quota: %t (%s), depends on resizes: %t; want %t", name, over, why, pass.DependsOnResizes(planned[0]), want)
		}
		if _, over := pass.OverQuota(resizes[2]); over {
			t.Errorf("%s: a resize is over quota", name)
		}
		a.Mode = cluster.Recreate
		if pass.DependsOnResizes(planned[0]) {
			t.Errorf("%s: a mode without resizes depends on resizes", name)
		}
	}
}

// The pods of a controller have different sizes. That a quota refused the larger increase later does not hide that it refused the smaller
// one, which is that of the pod to evict.
func TestPass_quotaRefusesSmallThenLargeIncrease_podWithSmallIncreaseIsNotEvicted(t *testing.T) {
	kinds := [3]decision.RefusalKind{decision.DeniedByQuota, decision.Denied, decision.DeniedByQuota}
	for name, order := range map[string][]int{"small first": {0, 2, 1}, "small last": {2, 0, 1}} {
		w, _ := growing(3)
		pods := w.Governed[0].Pods
		pods[0].Containers[0].Requests = cluster.Amounts(300, 256<<20)
		pods[1].Containers[0].Requests = cluster.Amounts(300, 256<<20)
		b := DefaultBudget()
		b.Tolerance = 1
		for i, n := range order {
			pass := Begin(noon.Add(time.Duration(i)*time.Second), w, b)
			own := *pass.entryOf(pods[n]).Decision
			next := pass.Refused(own, decision.Refusal{Kind: kinds[n], Text: "refused"})
			if n != 1 {
				continue
			}
			for _, d := range next {
				if d.Pod == pods[1] && d.Do == decision.Evict {
					t.Errorf("%s: the pod is evicted", name)
				}
			}
		}
	}
}

// A quota that podfit cannot read refused the resizes of some pods, and a webhook refuses them since. When the recommendation falls below
// what the quota refused, the resizes are tried again at once. The pod that shrinks is replaced first, because the quota may have no room
// for the others before that.
func TestPass_recommendationFallsBelowWhatQuotaRefused_podThatShrinksIsReplacedFirst(t *testing.T) {
	w, a := growing(4)
	b := DefaultBudget()
	b.Tolerance = 1
	large := cluster.Amounts(3000, 4<<30)
	a.Advice[0].Estimate = cluster.Estimate{Lower: large, Target: large, Upper: large}
	pods := w.Governed[0].Pods
	pods[3].Containers[0].Requests = large // the quota had room for it
	refused := actions(Begin(noon.Add(-time.Hour), w, b))
	if len(refused) != 3 {
		t.Fatalf("%d resizes, want 3", len(refused))
	}
	for _, d := range refused {
		tried := ledger.Attempt{Pod: d.Pod, Autoscaler: a.Key, Do: decision.Resize, With: d.With}
		w.Ledger.Refused(noon.Add(-time.Hour), tried, decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute"}, 4)
		for range 8 {
			w.Ledger.Refused(noon.Add(-time.Minute), tried, decision.Refusal{Kind: decision.WebhookFailed, Text: "failed"}, 4)
		}
	}
	if n := len(actions(Begin(noon, w, b))); n != 0 {
		t.Fatalf("%d actions during the back-off, want none", n)
	}
	small := cluster.Amounts(1000, 1<<30)
	a.Advice[0].Estimate = cluster.Estimate{Lower: small, Target: small, Upper: small}
	pass := Begin(noon, w, b)
	if n := len(actions(pass)); n != 4 {
		t.Fatalf("%d actions when the recommendation falls, want 4 resizes", n)
	}
	for range webhookFailures {
		for _, d := range actions(pass) {
			for _, next := range pass.Refused(d, decision.Refusal{Kind: decision.WebhookFailed, Text: "failed"}) {
				if next.Do == decision.Evict && next.Pod != pods[3] {
					t.Fatalf("%s is evicted before the pod that shrinks", next.Pod.Name)
				}
			}
		}
		for _, p := range pods[:3] {
			if own := *pass.entryOf(p).Decision; own.Reason.Code == decision.ResizeRefused {
				t.Errorf("%s: %s", p.Name, own.Reason)
			}
		}
		pass.Learn()
		pass = Begin(noon.Add(10*time.Minute), w, b)
	}
	w.Governed[0].Pods = pods[:3]
	w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 3}
	if n := len(actions(Begin(noon.Add(11*time.Minute), w, b))); n == 0 {
		t.Error("no action after the pod that shrinks was replaced")
	}
}

// webhookFailures is how often a failing webhook refuses a resize before the pod is evicted.
const webhookFailures = 3

// A resize waits for room on its node, and a quota refused a later one to a larger size. When the first one has waited for long, the pod is
// asked for the larger size again instead of being evicted: only the reply shows whether the quota has room for its replacement.
func TestPlan_quotaRefusedPodWhoseResizeIsDeferred_resizeIsTriedInsteadOfEviction(t *testing.T) {
	tests := map[string]struct {
		state   cluster.ResizeState
		refusal decision.RefusalKind
		known   bool // the quotas are known
		want    decision.Act
	}{
		"deferred":                      {cluster.ResizeDeferred, decision.DeniedByQuota, false, decision.Resize},
		"infeasible":                    {cluster.ResizeInfeasible, decision.DeniedByQuota, false, decision.Resize},
		"quotas are known":              {cluster.ResizeDeferred, decision.DeniedByQuota, true, decision.Evict},
		"refused for another reason":    {cluster.ResizeDeferred, decision.ServerBusy, false, decision.Evict},
		"in progress for a few minutes": {cluster.ResizeInProgress, decision.DeniedByQuota, false, decision.Leave},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, a := growing(4)
			b := DefaultBudget()
			b.Tolerance = 1
			if tt.known {
				w.Limits = map[string]policy.Limits{"shop": {Quotas: &cluster.Quotas{}}}
			}
			pod := w.Governed[0].Pods[0]
			with := Begin(noon, w, b).Decisions()[0].With
			w.Ledger.Refused(noon, ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Resize, With: with}, decision.Refusal{Kind: tt.refusal, Text: "refused"}, 4)
			pod.Resize = &cluster.Resize{State: tt.state, Since: noon}
			own := func(after time.Duration) decision.Decision {
				pass := Begin(noon.Add(after), w, b)
				return *pass.entryOf(pod).Decision
			}
			if d := own(30 * time.Minute); d.Do != tt.want {
				t.Errorf("after the back-off: %s because %s, want %s", d.Do, d.Reason, tt.want)
			}
			if tt.want != decision.Resize {
				return
			}
			for range 5 {
				w.Ledger.Refused(noon.Add(29*time.Minute), ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Resize, With: with}, decision.Refusal{Kind: tt.refusal, Text: "refused"}, 4)
			}
			if d := own(30 * time.Minute); d.Do != decision.Leave || d.Reason.Code != decision.ResizeOverQuota {
				t.Errorf("during the back-off: %s because %s", d.Do, d.Reason)
			}
		})
	}
}

// A quota that podfit cannot read refused the resize of a pod once, and a webhook refuses it since. After a day, what the quota refused counts
// neither for the pod nor for the others of its controller.
func TestPass_webhookRefusesForADayAfterQuota_podIsEvicted(t *testing.T) {
	w, _ := growing(4)
	b := DefaultBudget()
	b.Tolerance = 1
	pod := w.Governed[0].Pods[0]
	var evicted time.Duration
	for after := time.Duration(0); after < 48*time.Hour && evicted == 0; after += 100 * time.Minute {
		pass := Begin(noon.Add(after), w, b)
		own := *pass.entryOf(pod).Decision
		if own.Do != decision.Resize {
			t.Fatalf("after %v: %s because %s, want a resize", after, own.Do, own.Reason)
		}
		kind := decision.Denied
		if after == 0 {
			kind = decision.DeniedByQuota
		}
		for _, d := range pass.Refused(own, decision.Refusal{Kind: kind, Text: "refused"}) {
			if d.Do == decision.Evict && d.Pod == pod {
				evicted = after
			}
		}
	}
	if evicted < attempt.HistoryTTL || evicted > attempt.HistoryTTL+2*time.Hour {
		t.Errorf("the pod is evicted after %v, want %v", evicted, attempt.HistoryTTL)
	}
}
