// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// a workload of ready pods that should shrink.
func shrinking(replicas int) (World, *cluster.Autoscaler) {
	top := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "db"}, Target: top, Mode: cluster.Recreate,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(50, 64<<20), Target: cluster.Amounts(100, 128<<20), Upper: cluster.Amounts(200, 256<<20),
		}}},
	}
	g := cluster.Governed{Autoscaler: a}
	for i := range replicas {
		g.Pods = append(g.Pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("db-%d", i)}, UID: fmt.Sprint(i), Controller: top, Top: top, Node: "a",
			Phase: cluster.Running, Ready: true, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), QoS: cluster.Burstable,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30)}},
		})
	}
	return World{
		Governed: []cluster.Governed{g}, Scales: map[cluster.Workload]cluster.Scale{top: {Known: true, Replicas: int32(replicas)}}, Ledger: ledger.New(),
	}, a
}

// evictions returns the evictions of a pass.
func evictions(p *Pass) (out []decision.Decision) {
	for _, d := range p.Decisions() {
		if d.Do == decision.Evict {
			out = append(out, d)
		}
	}
	return out
}

func TestPlan_evictionUnansweredAndWatchLate_evictsNoSecondPod(t *testing.T) {
	w, _ := shrinking(3) // of which one may be missing
	first := Begin(noon, w, DefaultBudget())
	ds := evictions(first)
	if len(ds) != 1 {
		t.Fatalf("%d evictions, want 1", len(ds))
	}
	if more := first.Refused(ds[0], decision.Refusal{Kind: decision.OutcomeIsUnknown}); len(more) > 0 {
		t.Fatalf("%s is evicted instead", more[0].Pod.Name)
	}
	first.Learn()
	for minute := range 5 {
		now := noon.Add(time.Duration(minute+1)*time.Minute - time.Second)
		if ds := evictions(Begin(now, w, DefaultBudget())); len(ds) > 0 {
			t.Fatalf("%s is evicted %d minutes later, while the watch still shows the first pod", ds[0].Pod.Name, minute)
		}
	}
	if ds := evictions(Begin(noon.Add(5*time.Minute), w, DefaultBudget())); len(ds) != 1 {
		t.Errorf("%d evictions after the watch delay, want 1", len(ds))
	}
}

func TestLedger_pendingReplacementHasOldRequests_backsOff(t *testing.T) {
	w, _ := shrinking(3)
	b := DefaultBudget()
	waiting := func(i int, created time.Time, uid string) {
		p := *w.Governed[0].Pods[i]
		p.UID, p.Node, p.Phase, p.Ready, p.Created = uid, "", cluster.Pending, false, created
		w.Governed[0].Pods[i] = &p
	}
	waiting(0, noon.Add(-time.Hour), "0")
	waiting(1, noon.Add(-time.Hour), "1")
	count := 0
	for minute := range 60 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		pass := Begin(now, w, b)
		pass.Learn()
		for _, d := range evictions(pass) {
			count++
			pass.Done(d)
			for i, p := range w.Governed[0].Pods {
				if p.UID == d.Pod.UID {
					waiting(i, now, fmt.Sprint("again", count)) // as the template is
				}
			}
		}
	}
	if count < 2 || count > 10 {
		t.Errorf("%d evictions without effect in an hour", count)
	}
}

// A quota refuses a resize many times. A lost answer after that is no reason for an eviction.
func TestPass_quotaRefusesAndThenWebhook_podIsNotEvicted(t *testing.T) {
	for name, kind := range map[string]decision.RefusalKind{"lost": decision.OutcomeIsUnknown, "webhook denies": decision.Denied, "webhook fails": decision.WebhookFailed} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(3)
			a.Mode = cluster.InPlaceOrRecreate
			now, evicted := noon, false
			attempt := func(kind decision.RefusalKind) {
				pass := Begin(now, w, DefaultBudget())
				pass.Learn()
				for _, d := range pass.Decisions() {
					evicted = evicted || d.Do == decision.Evict
					if d.Do == decision.Resize {
						for _, next := range pass.Refused(d, decision.Refusal{Kind: kind}) {
							evicted = evicted || next.Do == decision.Evict
						}
					}
				}
				now = now.Add(2 * time.Hour)
			}
			for range 9 {
				attempt(decision.DeniedByQuota)
			}
			for range 6 {
				attempt(kind)
			}
			if evicted {
				t.Fatal("a pod is evicted whose resize a quota refused within the last day")
			}
			for range 12 {
				attempt(kind)
			}
			if !evicted {
				t.Error("no pod is evicted a day after the quota refused the resize")
			}
		})
	}
}

// The refusal of a quota does not apply to a smaller recommendation.
func TestPlan_quotaRefusedAndRecommendationFalls_retriesAtOnce(t *testing.T) {
	w, a := shrinking(3)
	a.Mode = cluster.InPlaceOrRecreate
	advise := func(cpu int64) {
		a.Advice[0].Estimate = cluster.Estimate{
			Lower: cluster.Amounts(cpu/2, 1<<30), Target: cluster.Amounts(cpu, 1<<30), Upper: cluster.Amounts(cpu*2, 1<<30),
		}
	}
	advise(8000)
	now := noon
	for range 8 {
		pass := Begin(now, w, DefaultBudget())
		for _, d := range pass.Decisions() {
			if d.Do == decision.Resize {
				pass.Refused(d, decision.Refusal{Kind: decision.DeniedByQuota})
			}
		}
		now = now.Add(2 * time.Hour)
	}
	now = now.Add(-2*time.Hour + time.Minute) // in the middle of the back-off
	resizes := func() (n int) {
		for _, d := range Begin(now, w, DefaultBudget()).Decisions() {
			if d.Do == decision.Resize {
				n++
			}
		}
		return n
	}
	if n := resizes(); n > 0 {
		t.Fatalf("%d pods are tried during their back-off", n)
	}
	advise(4000)
	if resizes() == 0 {
		t.Error("no pod is tried with a smaller recommendation")
	}
	pass := Begin(now, w, DefaultBudget())
	for _, d := range pass.Decisions() {
		if d.Do == decision.Resize {
			pass.Refused(d, decision.Refusal{Kind: decision.DeniedByQuota})
		}
	}
	now = now.Add(2 * time.Minute)
	if resizes() == 0 {
		t.Error("the back-off of the smaller size continues that of the larger one")
	}
}

func TestPass_evictionUnansweredAndWatchLate_reportsShortage(t *testing.T) {
	w, _ := shrinking(3)
	pods := w.Governed[0].Pods
	pass := Begin(noon, w, DefaultBudget())
	pass.Refused(evictions(pass)[0], decision.Refusal{Kind: decision.OutcomeIsUnknown})
	for minute := 1; minute <= 6; minute++ {
		now := noon.Add(time.Duration(minute) * time.Minute)
		if minute == 3 { // the watch shows that the pod is gone; nothing replaces it
			w.Governed[0].Pods = pods[1:]
		}
		pass = Begin(now, w, DefaultBudget())
		pass.Learn()
	}
	if len(pass.Shortages()) != 1 {
		t.Error("the missing replacement is not reported")
	}
}

// W-13: the API server carries out each eviction, and its answers are lost.
func TestLedger_unansweredEvictionsHaveNoEffect_backsOff(t *testing.T) {
	w, _ := shrinking(4)
	count := 0
	for minute := range 120 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		pass := Begin(now, w, DefaultBudget())
		pass.Learn()
		for _, d := range evictions(pass) {
			count++
			pass.Refused(d, decision.Refusal{Kind: decision.OutcomeIsUnknown})
			for i, p := range w.Governed[0].Pods {
				if p.UID == d.Pod.UID { // its replacement is as the template is
					next := *p
					next.UID, next.Created, next.Started = fmt.Sprint("again", count), now.Add(time.Second), now.Add(time.Second)
					w.Governed[0].Pods[i] = &next
				}
			}
		}
	}
	if count < 2 || count > 20 {
		t.Errorf("%d evictions without effect in two hours", count)
	}
}

// A user scales a workload down, and the watch still shows the pods that the controller deletes.
func TestPlan_morePodsThanWanted_surplusIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		pods, wanted int
		evictions    int
	}{
		"all wanted":                 {6, 6, 2}, // the effect of more than two would be unknown
		"six pods, four wanted":      {6, 4, 2},
		"two pods, one wanted":       {2, 1, 0}, // fewer than the minimum
		"six pods, none wanted":      {6, 0, 0},
		"fewer pods than are wanted": {3, 4, 1},
		"three pods, two wanted":     {3, 2, 1},
		"ten pods, a hundred wanted": {10, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(tt.pods)
			w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: int32(tt.wanted)}
			if n := len(evictions(Begin(noon, w, DefaultBudget()))); n != tt.evictions {
				t.Errorf("%d evictions, want %d", n, tt.evictions)
			}
		})
	}
}

// An eviction had no answer, and the pod still lives when the watch must have shown the outcome: it was not evicted. That a pod
// which a user adds later cannot be created is no reason to hold further evictions.
func TestPass_unansweredEvictionWasNotCarriedOut_reportsNoShortage(t *testing.T) {
	w, a := shrinking(3)
	pass := Begin(noon, w, DefaultBudget())
	pass.Refused(evictions(pass)[0], decision.Refusal{Kind: decision.OutcomeIsUnknown})
	w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 4}
	for minute := 1; minute <= 20; minute++ {
		now := noon.Add(time.Duration(minute) * time.Minute)
		pass = Begin(now, w, DefaultBudget())
		pass.Learn()
	}
	if s := pass.Shortages(); len(s) != 0 {
		t.Errorf("%d of %d pods exist, and a missing replacement is reported", s[0].Present, s[0].Wanted)
	}
}

// The watch shows neither that the evicted pod is replaced by one that is not ready yet, nor that a scale-down has deleted others.
func TestPlan_scaledDownAndWatchLate_evictsNoSecondPod(t *testing.T) {
	w, a := shrinking(6)
	b := DefaultBudget()
	b.Tolerance = 0
	pass := Begin(noon, w, b)
	pass.Done(evictions(pass)[0])
	pass.Learn()
	w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 2}
	if ds := evictions(Begin(noon.Add(time.Minute), w, b)); len(ds) > 0 {
		t.Errorf("%s is evicted, which may leave none of 2 pods ready", ds[0].Pod.Name)
	}
}

// A StatefulSet has lost a pod, and a quota rejects its replacement. After a scale-down the watch still shows the pods with the
// highest ordinals, which the controller has deleted, so that no pod seems to be missing.
func TestPlan_scaledDownWithoutReplacementAndWatchLate_evictsNoPod(t *testing.T) {
	w, a := shrinking(4)
	b := DefaultBudget()
	b.Tolerance = 0
	pass := Begin(noon, w, b)
	evicted := evictions(pass)[0]
	pass.Done(evicted)
	w.Governed[0].Pods = slices.DeleteFunc(w.Governed[0].Pods, func(p *cluster.Pod) bool { return p == evicted.Pod })
	for minute := 1; minute <= 20; minute++ {
		now := noon.Add(time.Duration(minute) * time.Minute)
		if minute == 17 {
			w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 2}
		}
		pass = Begin(now, w, b)
		if ds := evictions(pass); len(ds) > 0 {
			t.Fatalf("minute %d: %s is evicted, which may leave none of 2 pods", minute, ds[0].Pod.Name)
		}
		pass.Learn()
	}
	w.Governed[0].Pods = w.Governed[0].Pods[:2] // the watch shows the scale-down, and the replacement
	now := noon.Add(22 * time.Minute)           // five minutes after the scale-down
	if ds := evictions(Begin(now, w, b)); len(ds) != 1 {
		t.Errorf("%d evictions when the number of pods is right again, want 1", len(ds))
	}
}

// The watch still shows a pod that a scale-down has removed, so that the number of pods is right although the evicted pod has no
// replacement.
func TestPass_scaleDownHidesMissingReplacement_reportsShortage(t *testing.T) {
	for name, tt := range map[string]struct {
		replaced bool
		want     int
	}{"without a replacement": {false, 1}, "with a replacement": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(6)
			pods := w.Governed[0].Pods
			pass := Begin(noon, w, DefaultBudget())
			evicted := evictions(pass)[0]
			pass.Done(evicted)
			w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 5}
			pods = slices.DeleteFunc(pods, func(p *cluster.Pod) bool { return p == evicted.Pod })
			w.Governed[0].Pods = pods
			for minute := 1; minute <= 6; minute++ {
				now := noon.Add(time.Duration(minute) * time.Minute)
				if minute == 3 { // the watch shows the scale-down
					w.Governed[0].Pods = pods[:4]
					if tt.replaced {
						next := *evicted.Pod
						next.UID, next.Created = "again", noon.Add(time.Minute)
						w.Governed[0].Pods = slices.Concat(pods[:4], []*cluster.Pod{&next})
					}
				}
				pass = Begin(now, w, DefaultBudget())
				pass.Learn()
			}
			if n := len(pass.Shortages()); n != tt.want {
				t.Errorf("%d shortages, want %d", n, tt.want)
			}
		})
	}
}

// A StatefulSet has lost a pod, and a quota rejects its replacement. After a scale-down by one the watch still shows the pod with the highest
// ordinal, so that as many pods seem to exist as are wanted. This holds as well if the eviction is recent.
func TestPlan_scaledDownByOneWithoutReplacementAndWatchLate_evictsNoPod(t *testing.T) {
	for _, minutes := range []int{2, 14} {
		w, a := shrinking(4)
		b := DefaultBudget()
		b.Tolerance = 0
		pass := Begin(noon, w, b)
		evicted := evictions(pass)[0]
		pass.Done(evicted)
		w.Governed[0].Pods = slices.DeleteFunc(w.Governed[0].Pods, func(p *cluster.Pod) bool { return p == evicted.Pod })
		pass.Learn()
		for minute := 1; minute <= minutes; minute++ {
			if minute == minutes {
				w.Scales[a.Target] = cluster.Scale{Known: true, Replicas: 3}
			}
			pass = Begin(noon.Add(time.Duration(minute)*time.Minute), w, b)
			if ds := evictions(pass); len(ds) > 0 {
				t.Errorf("minute %d of %d: %s is evicted, which may leave 1 of 3 pods", minute, minutes, ds[0].Pod.Name)
			}
			pass.Learn()
		}
	}
}

// A container that ends soon after its resize reports the old requests until it starts again. It starts with the new ones, so its pod is not evicted.
func TestPlan_containerEndedAfterItsResize_podIsNotEvicted(t *testing.T) {
	b := DefaultBudget()
	b.InPlace = true
	for _, mode := range []cluster.Mode{cluster.InPlaceOrRecreate, cluster.InPlace} {
		w, a := shrinking(3)
		a.Mode = mode
		ended := w.Governed[0].Pods[0]
		ended.Ready = false
		c := &ended.Containers[0]
		c.Applied = &cluster.Applied{Requests: c.Requests}
		c.Requests = cluster.Amounts(100, 128<<20)
		c.Exit = &cluster.Exit{Now: true, Started: noon.Add(-2 * time.Second), Finished: noon.Add(-time.Second)}
		ds := Begin(noon, w, b).Decisions()
		i := slices.IndexFunc(ds, func(d decision.Decision) bool { return d.Pod == ended })
		if d := ds[i]; d.Do != decision.Leave || d.Reason.Code != decision.ResizeRunning {
			t.Errorf("%s: the pod is to %s: %s", mode, d.Do, d.Reason)
		}
	}
}
