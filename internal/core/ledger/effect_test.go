// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// fits are the requests that a replacement should get.
func fits(cpu int64) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(cpu, 1<<30)}}
}

// withCPU returns a newer pod with a CPU request.
func withCPU(p *cluster.Pod, uid string, created time.Time, cpu int64) *cluster.Pod {
	q := *p
	q.UID, q.Created = uid, created
	q.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, 1<<30)}}
	return &q
}

// viewOf returns a view of pods that one autoscaler governs.
func viewOf(replicas int32, pods ...*cluster.Pod) View {
	return View{
		Governed: []cluster.Governed{{Autoscaler: &cluster.Autoscaler{Key: vpa, Target: db}, Pods: pods}},
		Scales:   map[cluster.Workload]cluster.Scale{db: {Known: true, Replicas: replicas}},
	}
}

// wants returns the decisions on pods that should change to the given requests.
func wants(with []policy.Fitted, pods ...*cluster.Pod) []decision.Decision {
	var out []decision.Decision
	for _, p := range pods {
		out = append(out, decision.Decision{Pod: p, With: with, Wanted: decision.Reason{Code: decision.AboveRange}})
	}
	return out
}

func TestLedger_replacement_showsWhetherTheEvictionHadAnEffect(t *testing.T) {
	pod := podsOf(1)[0]
	created := noon.Add(time.Minute)
	for name, tt := range map[string]struct {
		replacement *cluster.Pod
		want        int // ineffective evictions
	}{
		"it has the requests":               {withCPU(pod, "1", created, 100), 0},
		"it has the old requests":           {withCPU(pod, "1", created, 1000), 1},
		"it is older than the eviction":     {withCPU(pod, "1", pod.Created, 1000), 0},
		"it has no node and the requests":   {func() *cluster.Pod { q := withCPU(pod, "1", created, 100); q.Node = ""; return q }(), 0},
		"it has no node and about the same": {func() *cluster.Pod { q := withCPU(pod, "1", created, 105); q.Node = ""; return q }(), 0},
		"it has no node and is too big":     {func() *cluster.Pod { q := withCPU(pod, "1", created, 1000); q.Node = ""; return q }(), 1},
	} {
		l := New()
		l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created})
		ds := wants(fits(50), tt.replacement)
		effective := l.Effective(ds)
		n, at := l.IneffectiveEvictions(db, effective)
		l.Learn(noon.Add(2*time.Minute), viewOf(1, tt.replacement), ds)
		learned, _ := l.IneffectiveEvictions(db, nil)
		if n != tt.want || learned != tt.want || n > 0 && !at.Equal(noon) {
			t.Errorf("%s: %d evictions without effect at %v, %d after the pass, want %d", name, n, at, learned, tt.want)
		}
	}
}

// Two pods without a node take turns. When the second one is evicted, it is not known yet whether the replacement of the first one can be
// scheduled. That it cannot shows that evictions have no effect.
func TestLedger_replacementIsUnscheduledAndOtherPodIsEvicted_evictionsHaveNoEffect(t *testing.T) {
	for name, tt := range map[string]struct {
		second []policy.Fitted // expected of the second eviction
		want   int             // ineffective evictions
	}{
		"the same requests":        {fits(950), 1},
		"a new recommendation":     {fits(500), 0},
		"a recommendation is gone": {nil, 0},
	} {
		pods := podsOf(2)
		l := New()
		first := withCPU(pods[0], "first", noon.Add(time.Minute), 1000)
		first.Node = ""
		l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(950), Newest: pods[0].Created})
		pending := []decision.Decision{{Pod: first, With: fits(950), Wanted: decision.Reason{Code: decision.Fits}}}
		l.Learn(noon.Add(time.Minute), viewOf(2, first, pods[1]), pending)
		l.Done(noon.Add(2*time.Minute), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict, With: tt.second, Newest: first.Created})
		second := withCPU(pods[1], "second", noon.Add(3*time.Minute), 1000)
		second.Node = ""
		late := []decision.Decision{
			{Pod: first, With: fits(950), Wanted: decision.Reason{Code: decision.TooBigToPlace}},
			{Pod: second, With: fits(950), Wanted: decision.Reason{Code: decision.Fits}},
		}
		if n, _ := l.IneffectiveEvictions(db, l.Effective(late)); n != tt.want {
			t.Errorf("%s: %d evictions without effect, want %d", name, n, tt.want)
		}
	}
}

// Two pods are evicted. One replacement has the requests at once. The other one is created later, when the webhook is not called any more, and
// shows that further evictions have no effect.
func TestLedger_laterReplacementHasTheOldRequests_evictionsHaveNoEffect(t *testing.T) {
	for name, tt := range map[string]struct{ cpu, want int64 }{"old requests": {1000, 1}, "expected requests": {100, 0}} {
		pods := podsOf(2)
		l := New()
		for _, p := range pods {
			l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
		}
		early := withCPU(pods[0], "early", noon.Add(time.Minute), 100)
		fine := decision.Decision{Pod: early, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}
		l.Learn(noon.Add(2*time.Minute), viewOf(2, early), []decision.Decision{fine})
		if n, _ := l.IneffectiveEvictions(db, nil); n != 0 {
			t.Errorf("%s: %d evictions without effect when the first replacement has the requests", name, n)
		}
		late := withCPU(pods[1], "late", noon.Add(13*time.Minute), tt.cpu)
		ds := append(wants(fits(100), late), fine)
		if tt.cpu == 100 {
			ds[0].Wanted = fine.Wanted
		}
		l.Learn(noon.Add(13*time.Minute), viewOf(2, early, late), ds)
		if n, _ := l.IneffectiveEvictions(db, nil); int64(n) != tt.want {
			t.Errorf("%s: %d evictions without effect, want %d", name, n, tt.want)
		}
		if _, open := l.evictions[db]; open != (tt.want > 0) {
			t.Errorf("%s: the eviction is remembered: %v", name, open)
		}
	}
}

// The resize of a replacement had no answer, and the pod has its requests now. The eviction had no effect all the same, also before the pass
// has recorded that the resize was carried out.
func TestLedger_replacementGotItsSizeByAResizeWithoutAnAnswer_evictionStillHadNoEffect(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created})
	replacement := withCPU(pod, "1", noon.Add(time.Minute), 1000)
	l.Learn(noon.Add(2*time.Minute), viewOf(1, replacement), wants(fits(100), replacement))
	l.Refused(noon.Add(2*time.Minute), Attempt{Pod: replacement, Autoscaler: vpa, Do: decision.Resize, With: fits(100)}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
	resized := withCPU(pod, "1", noon.Add(time.Minute), 100)
	ds := []decision.Decision{{Pod: resized, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}}
	for range 2 {
		if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 1 {
			t.Errorf("%d evictions without effect, want 1", n)
		}
		l.Learn(noon.Add(3*time.Minute), viewOf(1, resized), ds)
	}
}

// The recommendation changes before the watch shows the replacement of the first pod, and a second pod is evicted. The first replacement has
// the earlier requests, which says nothing about the second eviction. One with the old requests does.
func TestLedger_recommendationChangedBeforeTheReplacementIsSeen_saysNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		first, later, want int // the CPU request of the first replacement, evictions with the new recommendation, evictions without effect
	}{
		"it has the earlier requests":                 {500, 1, 0},
		"it has the earlier requests, two later ones": {500, 2, 0},
		"it has the old requests":                     {1000, 1, 1},
	} {
		pods := podsOf(1 + tt.later)
		l := New()
		l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(500), Newest: pods[0].Created})
		for _, p := range pods[1:] {
			l.Done(noon.Add(2*time.Minute), Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
		}
		first := withCPU(pods[0], "first", noon.Add(time.Minute), int64(tt.first))
		if n, _ := l.IneffectiveEvictions(db, l.Effective(wants(fits(100), first))); n != tt.want {
			t.Errorf("%s: %d evictions without effect, want %d", name, n, tt.want)
		}
	}
}

// A replacement without the recommended requests is resized in place. Its spec has them then, but the node may refuse the resize. Otherwise a
// refused resize would end the back-off, and the replacement would be evicted, too.
func TestLedger_replacementIsBeingResized_evictionStillHadNoEffect(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created})
	replacement := withCPU(pod, "1", noon.Add(time.Minute), 1000)
	l.Learn(noon.Add(2*time.Minute), viewOf(1, replacement), wants(fits(100), replacement))
	for resize, want := range map[*cluster.Resize]int{
		{State: cluster.ResizeDeferred}:   1,
		{State: cluster.ResizeInfeasible}: 1,
		nil:                               0,
	} {
		resized := withCPU(pod, "1", noon.Add(time.Minute), 100)
		resized.Resize = resize
		ds := []decision.Decision{{Pod: resized, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}}
		if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != want {
			t.Errorf("resize %+v: %d evictions without effect, want %d", resize, n, want)
		}
	}
}

// The replacement of an evicted pod did not get the recommended requests, and got them by a resize in place. The eviction had no effect, so
// if the resize is undone later, the next eviction waits for the longer back-off. A replacement with the requests from its creation ends it.
func TestLedger_replacementGotItsSizeByAResize_evictionStillHadNoEffect(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created})
	replacement := withCPU(pod, "1", noon.Add(time.Minute), 1000)
	l.Learn(noon.Add(2*time.Minute), viewOf(1, replacement), wants(fits(100), replacement))
	l.Done(noon.Add(2*time.Minute), Attempt{Pod: replacement, Autoscaler: vpa, Do: decision.Resize, With: fits(100)})
	resized := withCPU(pod, "1", noon.Add(time.Minute), 100)
	right := []decision.Decision{{Pod: resized, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}}
	l.Learn(noon.Add(5*time.Minute), viewOf(1, resized), right)
	if n, at := l.IneffectiveEvictions(db, l.Effective(right)); n != 1 || !at.Equal(noon) {
		t.Errorf("after the resize: %d evictions without effect, the last at %v, want 1 at %v", n, at, noon)
	}
	l.Done(noon.Add(time.Hour), Attempt{Pod: resized, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: resized.Created})
	second := withCPU(pod, "2", noon.Add(61*time.Minute), 1000)
	l.Learn(noon.Add(62*time.Minute), viewOf(1, second), wants(fits(100), second))
	if n, _ := l.IneffectiveEvictions(db, l.Effective(wants(fits(100), second))); n != 2 {
		t.Errorf("after the second eviction: %d evictions without effect, want 2", n)
	}
	l.Done(noon.Add(3*time.Hour), Attempt{Pod: second, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: second.Created})
	sized := withCPU(pod, "3", noon.Add(181*time.Minute), 100)
	right[0].Pod = sized
	l.Learn(noon.Add(182*time.Minute), viewOf(1, sized), right)
	if n, _ := l.IneffectiveEvictions(db, l.Effective(right)); n != 0 {
		t.Errorf("after a replacement with the recommended requests: %d evictions without effect, want 0", n)
	}
}

func TestLedger_resizeWasUndone_isCounted(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	if n, at := l.Undone(pod), l.LastResize(pod); n != 0 || !at.IsZero() {
		t.Errorf("before a resize: %d undone, the last at %v", n, at)
	}
	for i := range 3 {
		now := noon.Add(time.Duration(i) * time.Minute)
		l.Done(now, Attempt{Pod: pod, Do: decision.Resize, With: fits(100)})
		if n := l.Undone(withCPU(pod, pod.UID, pod.Created, 100)); n != 0 {
			t.Errorf("the pod has the requests, and %d resizes are undone", n)
		}
		if n := l.Undone(pod); n != i+1 || !l.LastResize(pod).Equal(now) {
			t.Errorf("after %d resizes %d are undone", i+1, n)
		}
	}
}

// Evicted pods have no replacement until the controller has its pods again. A pod that lives was not evicted.
func TestShortages_missingReplacement_isReportedAfterItsTime(t *testing.T) {
	pods := podsOf(3)
	l := New()
	l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	if n := l.Missing(db); n != 1 || !slices.Equal(l.MissingReplacements(), []cluster.Workload{db}) {
		t.Errorf("%d replacements are missing, of %v", n, l.MissingReplacements())
	}
	if !l.IsEvicted(noon.Add(time.Minute), pods[0]) || l.IsEvicted(noon.Add(attempt.WatchDelay), pods[0]) {
		t.Error("an evicted pod does not count as gone for the watch delay")
	}
	const within = 5 * time.Minute
	missing := viewOf(3, pods[1], pods[2])
	for after, want := range map[time.Duration]int{time.Minute: 0, within: 1} {
		short, complete := l.Shortages(noon.Add(after), missing, within)
		if len(short) != want || len(complete) != 0 {
			t.Errorf("after %v: shortages %v, complete %v", after, short, complete)
		}
		if s := short[db]; want == 1 && (s.Present != 2 || s.Wanted != 3 || !s.Since.Equal(noon)) {
			t.Errorf("shortage %+v", s)
		}
	}
	l.Learn(noon.Add(within), missing, nil)
	if l.Missing(db) != 1 {
		t.Error("the missing replacement is not counted")
	}
	whole := viewOf(3, pods[1], pods[2], withCPU(pods[0], "new", noon.Add(time.Second), 100))
	if _, complete := l.Shortages(noon.Add(within), whole, within); !complete[db] {
		t.Error("the controller has all pods and is not complete")
	}
	l.Learn(noon.Add(within), whole, nil)
	if l.Missing(db) != 0 {
		t.Error("the replacement is still missing")
	}
}

// Without a new pod, enough pods are no replacements until the watch must have shown a scale-down.
func TestShortages_enoughOldPods_areCompleteAfterTheWatchDelay(t *testing.T) {
	pods := podsOf(3)
	l := New()
	l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, Newest: pods[0].Created})
	view := viewOf(2, pods[1], pods[2])
	l.Learn(noon.Add(time.Second), view, nil)
	for after, want := range map[time.Duration]bool{time.Minute: false, attempt.WatchDelay + time.Second: true} {
		if _, complete := l.Shortages(noon.Add(after), view, time.Hour); complete[db] != want {
			t.Errorf("after %v: complete %v, want %t", after, complete, want)
		}
	}
	l.Learn(noon.Add(2*time.Second), View{Scales: view.Scales}, nil)
	if l.Missing(db) != 0 {
		t.Error("replacements are missing although nothing governs the pods")
	}
}

// Three pods were evicted, and two of them were replaced. When the controller is scaled down, the watch still shows two surplus pods that
// are gone. The two new pods are not the replacement of the third one, which is still missing.
func TestShortages_someWereReplacedBeforeScaleDown_othersAreStillMissing(t *testing.T) {
	pods := podsOf(6)
	l := New()
	for _, p := range pods[:3] {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, Newest: p.Created})
	}
	born := []*cluster.Pod{withCPU(pods[0], "new-0", noon.Add(time.Minute), 100), withCPU(pods[1], "new-1", noon.Add(time.Minute), 100)}
	l.Learn(noon.Add(2*time.Minute), viewOf(6, append(born, pods[3:]...)...), nil)
	if n := l.Missing(db); n != 1 {
		t.Fatalf("%d replacements are missing, want 1", n)
	}
	for minute := 10; minute < 12; minute++ {
		now, stale := noon.Add(time.Duration(minute)*time.Minute), viewOf(4, append(born, pods[3:]...)...)
		if _, complete := l.Shortages(now, stale, time.Minute); complete[db] {
			t.Fatalf("minute %d: the controller is complete", minute)
		}
		l.Learn(now, stale, nil)
	}
	shown := viewOf(4, append(born, pods[3])...)
	l.Learn(noon.Add(12*time.Minute), shown, nil)
	if short, _ := l.Shortages(noon.Add(13*time.Minute), shown, time.Minute); len(short) != 1 {
		t.Error("no replacement is missing")
	}
	whole := viewOf(4, append(born, pods[3], withCPU(pods[2], "new-2", noon.Add(13*time.Minute), 100))...)
	if _, complete := l.Shortages(noon.Add(14*time.Minute), whole, time.Minute); !complete[db] {
		t.Error("the controller is not complete although the third pod was replaced")
	}
}

// The watch still shows a pod that a scale-down removes when it shows that two pods were evicted. The replacement of the first one is not
// that of the second one.
func TestShortages_scaleDownIsKnownBeforeReplacements_secondOneIsStillMissing(t *testing.T) {
	pods := podsOf(4)
	l := New()
	for _, p := range pods[:2] {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, Newest: p.Created})
	}
	l.Learn(noon.Add(time.Second), viewOf(4, pods[2:]...), nil)
	l.Learn(noon.Add(time.Minute), viewOf(3, pods[2:]...), nil)
	born := withCPU(pods[0], "new-0", noon.Add(time.Minute), 100)
	stale := viewOf(3, born, pods[2], pods[3])
	if _, complete := l.Shortages(noon.Add(2*time.Minute), stale, time.Minute); complete[db] {
		t.Fatal("the controller is complete")
	}
	l.Learn(noon.Add(2*time.Minute), stale, nil)
	if short, _ := l.Shortages(noon.Add(3*time.Minute), viewOf(3, born, pods[2]), time.Minute); len(short) != 1 {
		t.Error("no replacement is missing")
	}
}

// An eviction without an answer counts until the pod is seen alive after the watch delay. The eviction before it is then the last again.
func TestLedger_evictionWithoutAnswerNotCarriedOut_isTakenBack(t *testing.T) {
	pods := podsOf(3)
	l := New()
	l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	for i, p := range pods[1:] {
		at := noon.Add(time.Duration(i+1) * time.Minute)
		l.Refused(at, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100)}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
		if !l.MayBeEvicted(at, p) || l.MayBeEvicted(at.Add(attempt.WatchDelay), p) {
			t.Error("a pod whose eviction had no answer does not count as gone for the watch delay")
		}
	}
	stored := l.Export(delays)[0]
	if e := stored.Eviction; e.Uncertain != pods[2].UID || e.Before == nil || !e.Before.At.Equal(noon) {
		t.Errorf("eviction %+v", stored.Eviction)
	}
	after := restored(noon.Add(3*time.Minute), l)
	after.Learn(noon.Add(2*time.Minute+attempt.WatchDelay), viewOf(3, pods...), wants(fits(100), pods...))
	if e := after.Export(delays)[0].Eviction; e == nil || !e.At.Equal(noon) || e.Uncertain != "" {
		t.Errorf("after the watch delay: %+v, want the eviction at noon", e)
	}
	alone := New()
	alone.Refused(noon, Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
	alone.Learn(noon.Add(attempt.WatchDelay), viewOf(3, pods...), wants(fits(100), pods...))
	if e := alone.Export(delays)[0].Eviction; e != nil {
		t.Errorf("the only eviction was not carried out, and is %+v", e)
	}
}

func TestLastFailure_kinds_giveReasons(t *testing.T) {
	for _, tt := range []struct {
		do   decision.Act
		kind decision.RefusalKind
		want decision.ReasonCode
	}{
		{decision.Evict, decision.Denied, decision.EvictionRefused},
		{decision.Evict, decision.DeniedByBudget, decision.DisruptionBudget},
		{decision.Evict, decision.OutcomeIsUnknown, decision.Unanswered},
		{decision.Evict, decision.NotReached, decision.ServerNotReached},
		{decision.Resize, decision.Denied, decision.ResizeRefused},
		{decision.Resize, decision.DeniedByQuota, decision.ResizeOverQuota},
		{decision.Delete, decision.Denied, decision.DeletionRefused},
		{decision.Surge, decision.NotReadyInTime, decision.SurgeFailed},
		{decision.Surge, decision.DeniedByBudget, decision.SurgeFailed},
	} {
		l, pod := New(), podsOf(1)[0]
		if tt.do == decision.Surge {
			l.SurgeFailed(noon, pod, decision.Refusal{Kind: tt.kind, Text: "no"})
		} else {
			l.Refused(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: tt.do}, decision.Refusal{Kind: tt.kind, Text: "no", RetryAfter: 2 * time.Minute}, 1)
		}
		r, ok := l.LastFailure(pod, tt.do)
		if why := r.Reason(delays, tt.do); !ok || why.Code != tt.want || why.Text != "no" || !why.Until.After(noon) || why.Have != 1 {
			t.Errorf("%s, kind %d: %+v", tt.do, tt.kind, why)
		}
		if !l.LastFailureAt(pod).Equal(noon) || !l.Served(pod.Namespace).Equal(noon) {
			t.Errorf("%s, kind %d: the attempt was at %v", tt.do, tt.kind, l.LastFailureAt(pod))
		}
	}
	if at := New().LastFailureAt(podsOf(1)[0]); !at.IsZero() {
		t.Errorf("nothing was refused, at %v", at)
	}
}

// After the eviction of another pod, the count of a disruption budget's refusals starts again.
func TestLastFailure_anotherPodWasEvicted_countOfBudgetStartsAgain(t *testing.T) {
	l, pods := New(), podsOf(2)
	for i := range 4 {
		l.Refused(noon.Add(time.Duration(i)*time.Minute), Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget}, 1)
	}
	if r, _ := l.LastFailure(pods[0], decision.Evict); r.Attempts != 4 {
		t.Errorf("%d attempts, want 4", r.Attempts)
	}
	l.Done(noon.Add(time.Hour), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict})
	if r, _ := l.LastFailure(pods[0], decision.Evict); r.Attempts != 1 {
		t.Errorf("%d attempts after the eviction of another pod, want 1", r.Attempts)
	}
	if r, _ := restored(noon.Add(time.Hour), l).LastFailure(pods[0], decision.Evict); r.Attempts != 1 {
		t.Errorf("%d attempts after a restart, want 1", r.Attempts)
	}
}

// While the update mode of a VPA is Off, nothing is recommended for its pods. That says nothing about the eviction before.
func TestLedger_updateModeIsOffForAWhile_evictionStillHadNoEffect(t *testing.T) {
	for cpu, want := range map[int64]int{1000: 1, 100: 0} {
		l, pod := New(), podsOf(1)[0]
		l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pod.Created})
		replacement := withCPU(pod, "1", noon.Add(time.Minute), cpu)
		l.Learn(noon.Add(time.Minute), viewOf(1, replacement), []decision.Decision{{Pod: replacement, Reason: decision.Reason{Code: decision.ModeOff}}})
		l.Learn(noon.Add(2*time.Minute), viewOf(1, replacement), wants(fits(50), replacement))
		if n, _ := l.IneffectiveEvictions(db, nil); n != want {
			t.Errorf("the replacement has %d: %d evictions without effect, want %d", cpu, n, want)
		}
	}
}

// A recommendation falls to the old size, which the replacement has, and rises again. That the sizes agree for a while says nothing about the
// eviction, also if they do when the replacement is first seen: otherwise a recommendation that falls and rises again and again would evict a
// pod each time. The replacement does not have the size for which the eviction was.
func TestLedger_recommendationIsTheOldSizeForAWhile_evictionStillHadNoEffect(t *testing.T) {
	for _, seenBefore := range []bool{true, false} {
		l, pod := New(), podsOf(1)[0]
		l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(2000), Newest: pod.Created})
		replacement := withCPU(pod, "1", noon.Add(time.Minute), 1000)
		if seenBefore {
			l.Learn(noon.Add(time.Minute), viewOf(1, replacement), wants(fits(2000), replacement))
		}
		same := []decision.Decision{{Pod: replacement, With: fits(1000), Wanted: decision.Reason{Code: decision.Fits}}}
		l.Learn(noon.Add(2*time.Minute), viewOf(1, replacement), same)
		check := func(what string, l *Ledger, want, unknown int) {
			t.Helper()
			if n, _ := l.IneffectiveEvictions(db, nil); n != want || l.UnknownEffect(db) != unknown {
				t.Errorf("seen before: %t, %s: %d evictions count as without effect, %d until an unknown one; want %d, %d", seenBefore, what, n, l.UnknownEffect(db), want, unknown)
			}
		}
		unknown := 1
		if seenBefore {
			unknown = 0
		}
		check("the recommendation is the old size", l, 1, unknown)
		l.Learn(noon.Add(3*time.Minute), viewOf(1, replacement), wants(fits(2000), replacement))
		check("it is another one", l, 1, unknown)
		check("after a restart", restored(noon.Add(3*time.Minute), l), 1, unknown)

		// The next eviction shows it. What is not known is not counted as known.
		again := noon.Add(time.Hour)
		l.Done(again, Attempt{Pod: replacement, Autoscaler: vpa, Do: decision.Evict, With: fits(2000), Newest: replacement.Created})
		for cpu, want := range map[int64]int{2000: 0, 1000: 2} {
			l := restored(again, l)
			next := withCPU(pod, "2", again.Add(time.Minute), cpu)
			ds := wants(fits(2000), next)
			left := unknown
			if cpu == 2000 {
				ds[0].Wanted.Code = decision.Fits
				left = 0
			}
			if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != want {
				t.Errorf("seen before: %t, next replacement with %d: %d evictions without effect before it is judged, want %d", seenBefore, cpu, n, want)
			}
			l.Learn(again.Add(time.Minute), viewOf(1, next), ds)
			check(fmt.Sprintf("the next replacement has %d", cpu), l, want, left)
		}
		// It falls again.
		third := withCPU(pod, "2", again.Add(time.Minute), 1000)
		l.Learn(again.Add(time.Minute), viewOf(1, third), []decision.Decision{{Pod: third, With: fits(1000), Wanted: decision.Reason{Code: decision.Fits}}})
		check("the recommendation falls again", l, 2, 2)
	}
}

// Two pods are evicted. The recommendation rises before the first replacement is created, which gets the new size, and changes again while the
// other one is missing. The size of the first one does not show that the evictions had no effect.
func TestLedger_recommendationChangesWhileAReplacementIsMissing_evictionKeepsItsEffect(t *testing.T) {
	for created, want := range map[int64]int{3000: 0, 1000: 1} {
		l, pods := New(), podsOf(3)
		for _, p := range pods[:2] {
			l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[2].Created})
		}
		first := withCPU(pods[0], "new", noon.Add(time.Minute), created)
		ds := wants(fits(3000), first)
		if created == 3000 {
			ds[0].Wanted.Code = decision.Fits
		}
		l.Learn(noon.Add(time.Minute), viewOf(3, first, pods[2]), ds)
		l.Learn(noon.Add(2*time.Minute), viewOf(3, first, pods[2]), wants(fits(500), first))
		if n, _ := l.IneffectiveEvictions(db, nil); n != want {
			t.Errorf("created with %d: %d evictions without effect, want %d", created, n, want)
		}
	}
}

// A replacement with the expected size is resized by a part when the recommendation rises, while that of another pod is still missing. What podfit
// has changed in the replacement says nothing about the evictions.
func TestLedger_replacementIsResizedByAPart_evictionKeepsItsEffect(t *testing.T) {
	for _, resized := range []bool{true, false} {
		l, pods := New(), podsOf(3)
		for _, p := range pods[:2] {
			l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[2].Created})
		}
		first := withCPU(pods[0], "new", noon.Add(time.Minute), 100)
		l.Learn(noon.Add(time.Minute), viewOf(3, first, pods[2]), []decision.Decision{{Pod: first, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}})
		if resized {
			l.Done(noon.Add(2*time.Minute), Attempt{Pod: first, Autoscaler: vpa, Do: decision.Resize, With: fits(640), Part: true})
		}
		part := withCPU(pods[0], "new", first.Created, 640)
		l.Learn(noon.Add(3*time.Minute), viewOf(3, part, pods[2]), wants(fits(4000), part))
		if n, _ := l.IneffectiveEvictions(db, nil); n == 0 != resized {
			t.Errorf("resized: %t, %d evictions without effect", resized, n)
		}
	}
}

// A pod grows by parts, and another client undoes all of them again and again: the back-off grows as with resizes in full.
func TestUndone_resizesByPartsAreUndone_countGrows(t *testing.T) {
	l, now, pod := New(), noon, podsOf(1)[0]
	with := func(cpu int64) *cluster.Pod { return withCPU(pod, pod.UID, pod.Created, cpu) }
	for round := 1; round <= 4; round++ {
		l.Done(now, Attempt{Pod: with(100), Do: decision.Resize, With: fits(200), Part: true})
		l.Done(now.Add(time.Minute), Attempt{Pod: with(200), Do: decision.Resize, With: fits(300), Part: true})
		l.Done(now.Add(2*time.Minute), Attempt{Pod: with(300), Do: decision.Resize, With: fits(400)})
		now = now.Add(30 * time.Minute)
		if n := l.Undone(with(100)); n != round {
			t.Errorf("%d resizes count as undone after %d rounds", n, round)
		}
	}
	l.Done(now, Attempt{Pod: with(400), Do: decision.Resize, With: fits(500)})
	if n := l.Undone(with(100)); n != 1 {
		t.Errorf("%d resizes count as undone after one that lasted, want 1", n)
	}
}

// The updater restarts after a second eviction with a new recommendation. The replacement of the first pod has the earlier one, and the webhook
// works, so evictions have an effect as without the restart.
func TestLedger_restartAfterRecommendationChanged_firstReplacementSaysNothing(t *testing.T) {
	pods := podsOf(3)
	l := New()
	l.Done(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(500), Newest: pods[0].Created})
	l.Done(noon.Add(time.Minute), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	first := withCPU(pods[0], "first", noon.Add(30*time.Second), 500)
	ds := wants(fits(100), first)
	for name, l := range map[string]*Ledger{"no restart": l, "restart": restored(noon.Add(2*time.Minute), l)} {
		if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 0 {
			t.Errorf("%s: %d evictions without effect, want 0", name, n)
		}
	}
}

// An eviction without an answer was carried out, and the recommendation changes before its replacement is seen. The replacement has the
// earlier requests, which says nothing about the next eviction.
func TestLedger_recommendationChangedAfterUnansweredEviction_saysNothing(t *testing.T) {
	pods := podsOf(3)
	l := New()
	l.Refused(noon, Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Evict, With: fits(500), Newest: pods[0].Created}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
	l.Done(noon.Add(time.Minute), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	first := withCPU(pods[0], "first", noon.Add(30*time.Second), 500)
	if n, _ := l.IneffectiveEvictions(db, l.Effective(wants(fits(100), first))); n != 0 {
		t.Errorf("%d evictions without effect, want 0", n)
	}
}

// A dry run has shown that replacements are not sized. Later, all new pods have the requests while the replacement of another pod is missing.

// The result of the dry run must not hold pods any longer.
func TestLedger_replacementIsSizedAndAnotherIsMissing_dryRunIsForgotten(t *testing.T) {
	pods := podsOf(3)
	l := New()
	for _, p := range pods[:2] {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	}
	unsized := withCPU(pods[0], "unsized", noon.Add(time.Second), 1000)
	l.Learn(noon.Add(time.Minute), viewOf(3, unsized, pods[2]), wants(fits(100), unsized, pods[2]))
	l.DryRun(noon.Add(time.Minute), Attempt{Pod: pods[2], Autoscaler: vpa, Do: decision.Evict, With: fits(100)}, unsized, "")
	// The webhook is repaired, and the user deletes the pod.
	sized := withCPU(pods[0], "sized", noon.Add(2*time.Minute), 100)
	ds := append(wants(fits(100), pods[2]), decision.Decision{Pod: sized, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}})
	l.Learn(noon.Add(3*time.Minute), viewOf(3, sized, pods[2]), ds)
	if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 0 {
		t.Errorf("%d evictions without effect, want 0", n)
	}
	if u, held := l.LastUnsized(db); held {
		t.Errorf("the workload is still held by %+v", u)
	}
}

// The replacement has exactly the requests for which the pod was evicted. A little later, the recommendation is 6 percent higher, and the pod
// is below its bounds. The eviction had an effect all the same.
func TestLedger_sizedReplacementAndSlightlyNewRecommendation_evictionHadAnEffect(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(2000), Newest: pod.Created})
	sized := withCPU(pod, "1", noon.Add(time.Second), 2000)
	ds := []decision.Decision{{Pod: sized, With: fits(2120), Wanted: decision.Reason{Code: decision.BelowRange}}}
	l.Learn(noon.Add(time.Minute), viewOf(1, sized), ds)
	if n, at := l.IneffectiveEvictions(db, l.Effective(ds)); n != 0 {
		t.Errorf("%d evictions without effect, the last at %s, want none", n, at)
	}
}

// The recommendation grows each minute. The replacement is created a minute after the eviction with the recommendation of that time, which the
// pass before has seen, and the next pass sees the next recommendation.
func TestLedger_replacementHasARecommendationInBetween_evictionHadAnEffect(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(2000), Newest: pod.Created})
	ending := *pod
	ending.Deleting = true
	other := podsOf(2)[1]
	l.Learn(noon.Add(time.Minute), viewOf(2, &ending, other), wants(fits(2500), other))
	sized := withCPU(pod, "1", noon.Add(70*time.Second), 2500)
	ds := wants(fits(3000), sized, other)
	l.Learn(noon.Add(2*time.Minute), viewOf(2, sized, other), ds)
	if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 0 {
		t.Errorf("%d evictions without effect, want none", n)
	}
}

// Two pods are evicted. One replacement is sized; the other one is missing for some minutes. A pod of a scale-up is created with a newer
// recommendation, and the recommendation changes again. All new pods were sized at their creation.
func TestLedger_replacementIsMissingAndScaledUpPodHasNewerSize_evictionHadAnEffect(t *testing.T) {
	pods := podsOf(4)
	l := New()
	for _, p := range pods[:2] {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(2000), Newest: pods[0].Created})
	}
	fit := func(p *cluster.Pod, with []policy.Fitted) decision.Decision {
		return decision.Decision{Pod: p, With: with, Wanted: decision.Reason{Code: decision.Fits}}
	}
	first := withCPU(pods[0], "first", noon.Add(time.Second), 2000)
	l.Learn(noon.Add(time.Minute), viewOf(4, first, pods[2], pods[3]), append(wants(fits(2000), pods[2:]...), fit(first, fits(2000))))
	scaled := withCPU(pods[0], "scaled", noon.Add(90*time.Second), 2500)
	l.Learn(noon.Add(2*time.Minute), viewOf(5, first, scaled, pods[2], pods[3]), append(wants(fits(2500), first, pods[2], pods[3]), fit(scaled, fits(2500))))
	ds := wants(fits(3000), first, scaled, pods[2], pods[3])
	l.Learn(noon.Add(3*time.Minute), viewOf(5, first, scaled, pods[2], pods[3]), ds)
	if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 0 {
		t.Errorf("%d evictions without effect, want none", n)
	}
}

// Two evictions have no answer. The first one was carried out, and its replacement has the old size. That the pod of the second one still runs
// says nothing about the first one, so evictions are still known to have no effect.
func TestLedger_secondUnansweredEvictionWasNotCarriedOut_firstStillHadNoEffect(t *testing.T) {
	pods := podsOf(3)
	l := New()
	for _, p := range pods[:2] {
		l.Refused(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: pods[0].Created}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 3)
	}
	unsized := withCPU(pods[0], "unsized", noon.Add(time.Second), 1000)
	for minute := 1; minute <= 6; minute++ {
		now := noon.Add(time.Duration(minute) * time.Minute)
		ds := wants(fits(100), unsized, pods[1], pods[2])
		l.Learn(now, viewOf(3, unsized, pods[1], pods[2]), ds)
		if n, _ := l.IneffectiveEvictions(db, l.Effective(ds)); n != 1 {
			t.Fatalf("minute %d: %d evictions without effect, want 1", minute, n)
		}
	}
}

// Three pods were evicted, and two were replaced. After a restart, these two do not count as the replacement of the third one.
func TestLedger_restart_replacementsDoNotCountTwice(t *testing.T) {
	pods := podsOf(6)
	l := New()
	for _, p := range pods[:3] {
		l.Done(noon, Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict, Newest: p.Created})
	}
	born := []*cluster.Pod{withCPU(pods[0], "new-0", noon.Add(time.Minute), 100), withCPU(pods[1], "new-1", noon.Add(time.Minute), 100)}
	l.Learn(noon.Add(2*time.Minute), viewOf(6, append(born, pods[3:]...)...), nil)
	stale := viewOf(4, append(born, pods[3:]...)...)
	for name, l := range map[string]*Ledger{"no restart": l, "restart": restored(noon.Add(3*time.Minute), l)} {
		if _, complete := l.Shortages(noon.Add(3*time.Minute), stale, time.Minute); complete[db] {
			t.Errorf("%s: the controller is complete", name)
		}
	}
}

// A pod of an old ReplicaSet is evicted during a rollout, and the ReplicaSet is deleted with revisionHistoryLimit 0. The new pods are sized, so
// the records of the eviction and of its missing replacement are forgotten.
func TestLedger_replicaSetIsDeleted_recordsAreForgotten(t *testing.T) {
	l := New()
	rs := func(name string) cluster.Workload {
		return cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: name}
	}
	old := podsOf(1)[0]
	old.Controller = rs("old")
	l.Done(noon, Attempt{Pod: old, Autoscaler: vpa, Do: decision.Evict, With: fits(100), Newest: old.Created})
	sized := withCPU(old, "1", noon.Add(time.Second), 100)
	sized.Controller = rs("new")
	view := viewOf(1, sized)
	view.Scales = map[cluster.Workload]cluster.Scale{rs("new"): {Known: true, Replicas: 1}, rs("old"): {Gone: true}}
	ds := []decision.Decision{{Pod: sized, With: fits(100), Wanted: decision.Reason{Code: decision.Fits}}}
	for minute := 1; minute <= 60; minute++ {
		l.Learn(noon.Add(time.Duration(minute)*time.Minute), view, ds)
	}
	if states := l.Export(delays); len(states) != 0 {
		t.Errorf("after an hour: %+v, eviction %+v", states[0], states[0].Eviction)
	}
}

// While another replacement is missing, the recommendation falls, and the replacement is resized in place, which the kubelet defers. It still
// runs with the requests that the eviction was for.
func TestLedger_replacementIsResizedToANewerRecommendation_evictionHadAnEffect(t *testing.T) {
	pod := podsOf(1)[0]
	for name, tt := range map[string]struct {
		created int64 // what the replacement was created with, and runs with
		want    int
	}{"it was sized": {3000, 0}, "it was not sized": {1000, 1}} {
		l := New()
		l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict, With: fits(3000), Newest: pod.Created})
		replacement := withCPU(pod, "1", noon.Add(time.Minute), 100)
		c := &replacement.Containers[0]
		c.Applied = &cluster.Applied{Requests: cluster.Amounts(tt.created, 1<<30)}
		replacement.Resize = &cluster.Resize{State: cluster.ResizeDeferred}
		if n, _ := l.IneffectiveEvictions(db, l.Effective(wants(fits(100), replacement))); n != tt.want {
			t.Errorf("%s: %d evictions without effect, want %d", name, n, tt.want)
		}
	}
}
