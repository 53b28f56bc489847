// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// quotaUsed is the refusal of a resize by a quota that other pods use.
var quotaUsed = decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute", QuotaUsed: true}

// overQuotaThenDenied returns a world with two small pods and large ones. A quota that podfit cannot read, or a LimitRange, refused the resizes of the
// small pods an hour before noon, and a webhook, which the API server calls first, has refused them since.
func overQuotaThenDenied(t *testing.T, first decision.Refusal, large ...cluster.Resources) (World, Budget) {
	t.Helper()
	w, _ := growing(2 + len(large))
	for i, has := range large {
		w.Governed[0].Pods[2+i].Containers[0].Requests = has
	}
	b := DefaultBudget()
	b.Tolerance = 1
	for i, refusal := range []decision.Refusal{first, {Kind: decision.Denied, Text: "denied"}} {
		pass := Begin(noon.Add(time.Duration(i-60)*time.Minute), w, b)
		refused := actions(pass)
		if len(refused) != 2 {
			t.Fatalf("%d resizes, want 2", len(refused))
		}
		for _, d := range refused {
			if next := pass.Refused(d, refusal); len(next) != 0 {
				t.Fatalf("%v, want no actions", next)
			}
		}
		pass.Learn()
	}
	return w, b
}

// afterDenied returns what a pass does if a webhook denies all its resizes.
func afterDenied(pass *Pass) (out []decision.Decision) {
	for _, d := range actions(pass) {
		if d.Do != decision.Resize {
			out = append(out, d)
			continue
		}
		for _, next := range pass.Refused(d, decision.Refusal{Kind: decision.Denied, Text: "denied"}) {
			if next.Do == decision.Evict {
				out = append(out, next)
			}
		}
	}
	return out
}

// scaleDown leaves the first pods of a world.
func scaleDown(w *World, replicas int) {
	g := &w.Governed[0]
	g.Pods = slices.Clone(g.Pods[:replicas])
	w.Scales[g.Autoscaler.Target] = cluster.Scale{Known: true, Replicas: int32(replicas)}
}

// A webhook refuses all resizes, so that the quota never answers again. When the pods of the workload request so much less that a larger pod
// makes them no more than before, the quota has room, and a pod is evicted.
func TestPass_workloadFreesQuotaThatRefusedResize_podIsEvicted(t *testing.T) {
	large := cluster.Amounts(1000, 1<<30)
	tests := map[string]struct {
		first  decision.Refusal
		change func(*World)
		evicts bool
	}{
		"scaled down":     {quotaUsed, func(w *World) { scaleDown(w, 2) }, true},
		"not scaled down": {quotaUsed, func(*World) {}, false},
		"pods are missing": {quotaUsed, func(w *World) {
			scaleDown(w, 2)
			w.Scales[w.Governed[0].Autoscaler.Target] = cluster.Scale{Known: true, Replicas: 4}
		}, false},
		"number of replicas is unknown": {quotaUsed, func(w *World) {
			scaleDown(w, 2)
			clear(w.Scales)
		}, false},
		"surplus pods are being deleted": {quotaUsed, func(w *World) {
			all := w.Governed[0].Pods
			scaleDown(w, 2)
			for _, p := range all[2:] {
				p.Deleting = true
				w.Governed[0].Pods = append(w.Governed[0].Pods, p)
			}
		}, false},
		"another pod uses the quota": {quotaUsed, func(w *World) {
			scaleDown(w, 3)
			w.Governed[0].Pods[2].Containers[0].Requests = cluster.Amounts(2000, 2<<30)
		}, false},
		"large pods have shrunk": {quotaUsed, func(w *World) {
			for _, p := range w.Governed[0].Pods[2:] {
				p.Containers[0].Requests = cluster.Amounts(500, 512<<20)
			}
		}, true},
		"the kubelet has not shrunk the large pod yet": {quotaUsed, func(w *World) {
			p := w.Governed[0].Pods[2]
			c := &p.Containers[0]
			c.Applied = &cluster.Applied{Requests: c.Requests}
			c.Requests = cluster.Amounts(100, 128<<20)
			p.Resize = &cluster.Resize{State: cluster.ResizeInProgress, Since: noon}
		}, false},
		"a LimitRange refused the resizes": {decision.Refusal{Kind: decision.DeniedByQuota, Text: "maximum cpu usage per Container is 1"}, func(w *World) {
			scaleDown(w, 2)
		}, false},
		"only memory is freed": {quotaUsed, func(w *World) {
			scaleDown(w, 3)
			w.Governed[0].Pods[2].Containers[0].Requests = cluster.Amounts(1900, 512<<20)
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, b := overQuotaThenDenied(t, tt.first, large, large)
			tt.change(&w)
			for restart, l := range map[string]*ledger.Ledger{"same updater": w.Ledger, "next updater": restored(noon, w.Ledger, b)} {
				w.Ledger = l
				var evicted []string
				for _, d := range afterDenied(Begin(noon, w, b)) {
					if d.Do == decision.Evict {
						evicted = append(evicted, d.Pod.Name)
					}
				}
				if want := map[bool]int{true: 1}[tt.evicts]; len(evicted) != want {
					t.Errorf("%s: evicted %v, want %d pods", restart, evicted, want)
				}
			}
		})
	}
}

// The freed quota is enough for one pod: the second one is not evicted when the first one has its replacement.
func TestPass_freedQuotaIsUsed_noOtherPodIsEvicted(t *testing.T) {
	w, b := overQuotaThenDenied(t, quotaUsed, cluster.Amounts(1000, 1<<30))
	scaleDown(&w, 2)
	pass := Begin(noon, w, b)
	next := afterDenied(pass)
	if len(next) != 1 {
		t.Fatalf("%d evictions, want 1", len(next))
	}
	pass.Done(next[0])
	pass.Learn()
	replacement := *next[0].Pod
	replacement.UID, replacement.Created = "new", noon.Add(time.Minute)
	replacement.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30)}}
	pods := slices.DeleteFunc(w.Governed[0].Pods, func(p *cluster.Pod) bool { return p == next[0].Pod })
	for i, there := range [][]*cluster.Pod{pods, append(slices.Clone(pods), &replacement)} {
		w.Governed[0].Pods = there
		for minute := 1; minute <= 120; minute++ {
			pass := Begin(noon.Add(time.Duration(120*i+minute)*time.Minute), w, b)
			for _, d := range afterDenied(pass) {
				t.Fatalf("%d pods exist: minute %d: %s %s", len(there), minute, d.Do, d.Pod.Name)
			}
			pass.Learn()
		}
	}
}

// A stale watch shows pods that a scale-down has deleted before the quota refuses the resize. They have freed nothing since.
func TestPass_watchShowsDeletedPodsWhenQuotaRefuses_podIsNotEvicted(t *testing.T) {
	w, _ := growing(4)
	for _, p := range w.Governed[0].Pods[2:] {
		p.Containers[0].Requests = cluster.Amounts(1000, 1<<30)
	}
	b := DefaultBudget()
	b.Tolerance = 1
	w.Scales[w.Governed[0].Autoscaler.Target] = cluster.Scale{Known: true, Replicas: 2}
	pass := Begin(noon, w, b)
	for _, d := range actions(pass) {
		pass.Refused(d, quotaUsed)
	}
	pass.Learn()
	scaleDown(&w, 2)
	for minute := 1; minute <= 120; minute++ {
		pass := Begin(noon.Add(time.Duration(minute)*time.Minute), w, b)
		for _, d := range afterDenied(pass) {
			t.Fatalf("minute %d: %s %s", minute, d.Do, d.Pod.Name)
		}
		pass.Learn()
	}
}
