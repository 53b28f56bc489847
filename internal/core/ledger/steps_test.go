// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/rollout"
)

func TestLedger_canary_isStoredUntilItIsCanceledOrItsRolloutEnds(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	attempt := Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Resize, With: fits(100)}
	l.CanaryPlanned(noon, attempt)
	if s := l.Canary(db); s.Phase != rollout.Starting || s.UID != pod.UID {
		t.Errorf("planned: %+v", s)
	}
	l.CanaryChanged(noon, attempt, true)
	if s := restored(noon, l).Canary(db); s.Phase != l.Canary(db).Phase || s.Pod != pod.Name || !s.Since.Equal(noon) {
		t.Errorf("after a restart: %+v, want %+v", s, l.Canary(db))
	}
	view := viewOf(1, pod)
	view.Governed[0].Autoscaler.Canary = cluster.Canary{On: true, Watch: time.Hour}
	l.Learn(noon.Add(time.Minute), view, wants(fits(100), pod))
	if s := l.Canary(db); s.Phase == rollout.Idle {
		t.Errorf("while the canary is watched: %+v", s)
	}
	l.CanaryCanceled(db)
	if s := l.Canary(db); s.Phase != rollout.Idle || len(l.Export(delays)) > 1 {
		t.Errorf("canceled: %+v", s)
	}
	l.CanaryChanged(noon, attempt, false)
	view.Governed[0].Autoscaler.Canary.On = false
	l.Learn(noon.Add(time.Minute), view, nil)
	if s := l.Canary(db); s.Phase != rollout.Idle {
		t.Errorf("without the annotation: %+v", s)
	}
}

// The clock was three weeks ahead when a size was reverted.
func TestRestore_revertByAClockAhead_waitsForTheCoolDownOnly(t *testing.T) {
	ahead := noon.AddDate(0, 0, 21)
	held := rollout.State{Phase: rollout.Held, Cause: rollout.OOMKilled, After: SizesOf(fits(1)), Since: ahead, Until: ahead.Add(rollout.Cooldown), Reverts: 1}
	l := New()
	l.Restore(noon, []State{{Workload: db, Canary: &held}})
	running := held.Observe(noon, time.Hour, nil) // without a restart
	for name, s := range map[string]rollout.State{"restored": l.Canary(db), "observed": running} {
		if s.Phase != rollout.Held || !s.Until.Equal(noon.Add(rollout.Cooldown)) {
			t.Errorf("%s: phase %d until %v, want held for a day", name, s.Phase, s.Until)
		}
	}
}

func TestLedger_hostileCanary_isIgnoredOrBounded(t *testing.T) {
	for name, s := range map[string]rollout.State{
		"unknown phase":        {Phase: 99, After: SizesOf(fits(1))},
		"unknown cause":        {Phase: rollout.Held, Cause: 99, After: SizesOf(fits(1))},
		"without the new size": {Phase: rollout.Watching},
	} {
		l := New()
		l.Restore(noon, []State{{Workload: db, Canary: &s}})
		if got := l.Canary(db); got.Phase != rollout.Idle {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l := New()
	l.Restore(noon, []State{{Workload: db, Canary: &rollout.State{Phase: rollout.Watching, After: SizesOf(fits(1)), Since: noon.Add(time.Hour), Reverts: 1 << 40}}})
	if got := l.Canary(db); got.Since.After(noon) || got.Reverts > attempt.MaxCount {
		t.Errorf("restored %+v", got)
	}
}

func TestLedger_capacityRequest_endsWithItsPlaceholder(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	held := map[cluster.Key]*cluster.CapacityRequest{cluster.PlaceholderOf(pod): {}}
	learn := func(after time.Duration, held map[cluster.Key]*cluster.CapacityRequest, pods ...*cluster.Pod) {
		view := viewOf(1, pods...)
		view.Requests = held
		l.Learn(noon.Add(after), view, wants(fits(2000), pods...))
	}
	l.Headroom.Asked(noon, pod)
	learn(2*time.Minute, held, pod)
	if c := restored(noon, l).Headroom.Of(db); c.UID != pod.UID || !c.Requested.Equal(noon) {
		t.Errorf("asked: %+v", c)
	}
	learn(2*time.Minute, nil, pod)
	if c := l.Headroom.Of(db); c.Failures != 1 || c.Text == "" || !c.Requested.IsZero() {
		t.Errorf("the placeholder is gone: %+v", c)
	}
	l.Headroom.Failed(noon.Add(time.Hour), pod, "no node")
	l.Headroom.Asked(noon.Add(2*time.Hour), pod)
	learn(2*time.Hour, held)
	if c := l.Headroom.Of(db); c.Failures != 2 || c.UID != "" {
		t.Errorf("the pod is gone: %+v, want only the failures", c)
	}
	learn(time.Hour+attempt.HistoryTTL+time.Second, held)
	if c := l.Headroom.Of(db); c != (headroom.State{}) {
		t.Errorf("a day later: %+v", c)
	}
	l.Headroom.Asked(noon, pod)
	l.Headroom.Released(db)
	if len(l.Export(delays)) != 0 {
		t.Errorf("released: %+v", l.Export(delays))
	}
	l.Headroom.Asked(noon, pod)
	l.Done(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Evict})
	if c := l.Headroom.Of(db); c != (headroom.State{}) {
		t.Errorf("evicted: %+v", c)
	}
}

func TestLedger_budgetOfAChange_isSpentUntilItsEnd(t *testing.T) {
	l, pods := New(), podsOf(2)
	end := noon.Add(time.Minute)
	l.Spend(Attempt{Pod: pods[0], Do: decision.Resize, With: fits(100)}, false, end)
	l.Spend(Attempt{Pod: pods[1], Do: decision.Evict}, true, end)
	for _, tt := range []struct {
		pod   *cluster.Pod
		now   time.Time
		stuck bool
		want  bool
	}{
		{pods[0], noon, false, true},
		{pods[0], noon, true, false}, // it was in service
		{pods[0], end, false, false},
		{withCPU(pods[0], "0", noon, 100), noon, false, false}, // the kubelet has applied the resize
		{pods[1], noon, true, true},
	} {
		if got := l.HasSpent(tt.now, tt.pod, tt.stuck); got != tt.want {
			t.Errorf("pod %s at %v, stuck %t: spent %t, want %t", tt.pod.Name, tt.now, tt.stuck, got, tt.want)
		}
	}
	if n := l.Revived(noon)[db]; n != 1 || len(l.Revived(end)) != 0 {
		t.Errorf("%d stuck pods are changed, want 1", n)
	}
	l.Learn(end, View{}, nil)
	if len(l.spends) != 0 {
		t.Errorf("after the end: %v", l.spends)
	}
	l.Done(noon, Attempt{Pod: pods[0], Do: decision.Resize, With: fits(100)})
	if after := restored(noon, l); !after.HasSpent(noon.Add(time.Second), pods[0], false) || after.HasSpent(noon.Add(DefaultWindow), pods[0], false) {
		t.Error("a restored resize does not take from the budget for the default time")
	}
}

func TestLedger_changesOfTheLastHour_areStoredAndForgotten(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	l.RecordChange(noon, pod, cluster.Amounts(1000, 1<<30))
	if got := restored(noon.Add(time.Minute), l).Changes()[db]; len(got) != 1 || got[0].Requests.CPU != 1000 {
		t.Errorf("after a restart: %v", got)
	}
	l.Learn(noon.Add(30*time.Minute), View{}, nil)
	if len(l.Changes()) != 1 {
		t.Error("a change of the last hour is not counted")
	}
	l.Learn(noon.Add(2*rollout.Span), View{}, nil)
	if len(l.Changes()) != 0 {
		t.Errorf("after two hours: %v", l.Changes())
	}
	if until := l.ChangesUnknownUntil(noon); !until.IsZero() {
		t.Errorf("changes are unknown until %v", until)
	}
	l.AssumeChanges(noon)
	if until := l.ChangesUnknownUntil(noon.Add(time.Minute)); !until.Equal(noon.Add(rollout.Span)) {
		t.Errorf("changes are unknown until %v, want an hour", until)
	}
	if until := l.ChangesUnknownUntil(noon.Add(rollout.Span)); !until.IsZero() {
		t.Errorf("after the hour, changes are unknown until %v", until)
	}
}

// A deletion is kept while pods of the workload are not ready because of OOM kills.
func TestLedger_deletion_isForgottenWhenThePodsServe(t *testing.T) {
	l, pod := New(), podsOf(1)[0]
	if _, ok := l.LastDeletion(db); ok {
		t.Error("there is a deletion")
	}
	l.Refused(noon, Attempt{Pod: pod, Autoscaler: vpa, Do: decision.Delete, Memory: 7, Newest: noon}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 0)
	if d, ok := l.LastDeletion(db); !ok || d.UID != pod.UID || d.Memory != 7 || !d.Newest.Equal(noon) {
		t.Errorf("deletion %+v", d)
	}
	crashing := *pod
	crashing.Crash = &cluster.Crash{}
	for _, tt := range []struct {
		pod  *cluster.Pod
		want bool
	}{{&crashing, true}, {pod, false}} {
		l.Learn(noon.Add(attempt.HistoryTTL+time.Second), View{}, []decision.Decision{{Pod: tt.pod}})
		if _, ok := l.LastDeletion(db); ok != tt.want {
			t.Errorf("kept: %t, want %t", ok, tt.want)
		}
	}
}

func TestLedger_interruptedPass_blocksUntilTheWatchDelay(t *testing.T) {
	l := New()
	if _, interrupted := l.Interrupted(noon, db); interrupted {
		t.Error("an empty ledger is interrupted")
	}
	l.Restore(noon, []State{{Workload: db, ActingSince: noon}})
	if until, interrupted := l.Interrupted(noon, db); !interrupted || !until.Equal(noon.Add(attempt.WatchDelay)) {
		t.Errorf("interrupted %t until %v", interrupted, until)
	}
	if _, interrupted := l.Interrupted(noon.Add(attempt.WatchDelay), db); interrupted {
		t.Error("interrupted after the watch delay")
	}
}

func TestState_lastAction_isTheLatest(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for name, s := range map[string]State{
		"a pass in progress":       {ActingSince: at(9)},
		"a canary":                 {ActingSince: at(1), Canary: &rollout.State{Since: at(9)}},
		"an eviction":              {Eviction: &EvictionState{At: at(9)}},
		"a deletion":               {Deletion: &DeletionState{At: at(9)}},
		"rounds":                   {Rounds: &RoundsState{At: at(9)}},
		"a request for capacity":   {Capacity: &headroom.State{Requested: at(9)}},
		"an evicted pod":           {Replacements: []PendingState{{Evicted: []EvictedPod{{At: at(3)}, {At: at(9)}}}}},
		"an attempt":               {Pods: []PodState{{At: at(9)}, {At: at(20), Failed: &FailedState{}}}},
		"an attempt with no reply": {Pods: []PodState{{At: at(20), Failed: &FailedState{Lost: at(9)}}}},
	} {
		if got := s.LastAction(); !got.Equal(at(9)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
