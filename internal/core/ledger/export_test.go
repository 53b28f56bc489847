// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// The state of a workload is bounded. The most recent attempts are kept.
func TestExport_manyPods_stateIsBounded(t *testing.T) {
	l := New()
	pods := podsOf(2 * maxPodStates)
	for i, p := range pods {
		d := Attempt{Pod: p, Autoscaler: vpa, Do: decision.Evict}
		l.Refused(noon.Add(time.Duration(i)*time.Second), d, decision.Refusal{Kind: decision.Denied, Text: strings.Repeat("long ", 1000)}, 0)
		l.addPending(noon, d)
	}
	states := l.Export(delays)
	if len(states) != 1 {
		t.Fatalf("%d states, want 1", len(states))
	}
	s := states[0]
	if len(s.Pods) != maxPodStates || s.Omitted != len(pods)-maxPodStates || s.Pods[0].Name != pods[len(pods)-1].Name {
		t.Errorf("%d pods, %d omitted, first is %s", len(s.Pods), s.Omitted, s.Pods[0].Name)
	}
	if n := len(s.Pods[0].Failed.Text); n > attempt.MaxText+len("…") {
		t.Errorf("text of %d bytes", n)
	}
	if n := len(s.Replacements[0].Evicted); n != maxEvictedPods {
		t.Errorf("%d evicted pods, want %d", n, maxEvictedPods)
	}
}

// Deletions, and steps that make room, are stored as they are.
func TestLedger_deletionsAndSteps_areRestored(t *testing.T) {
	pods := podsOf(3)
	kept := New()
	part := Attempt{Pod: pods[0], Autoscaler: vpa, Do: decision.Resize, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(150, 1<<30)}}, Part: true}
	kept.Done(noon, part)
	kept.Done(noon.Add(time.Minute), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Evict, RoomFor: pods[0]})
	kept.Done(noon.Add(2*time.Minute), Attempt{Pod: pods[2], Autoscaler: vpa, Do: decision.Delete})
	kept.Done(noon.Add(3*time.Minute), Attempt{Pod: pods[2], Autoscaler: vpa, Do: decision.Delete, Repeated: true})
	kept.Refused(noon.Add(4*time.Minute), Attempt{Pod: pods[1], Autoscaler: vpa, Do: decision.Delete}, decision.Refusal{Kind: decision.ServerBusy}, 0)
	after := restored(noon.Add(5*time.Minute), kept)
	if got := after.lacking["0"]; got.Parts != 1 || got.Moves != 1 || !got.Since.Equal(noon) || len(got.With) != 1 {
		t.Errorf("shortage %+v", got)
	}
	if got := after.rescues[db]; got.Again != 1 || got.UID != "2" || !got.At.Equal(noon.Add(3*time.Minute)) {
		t.Errorf("deletion %+v", got)
	}
	if r, ok := after.LastFailure(pods[1], decision.Delete); !ok || r.Kind != decision.ServerBusy || r.Attempts != 1 {
		t.Errorf("refusal %+v (%t)", r, ok)
	}
	if diff := gocmp.Diff(kept.Export(delays), after.Export(delays)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLedger_manyShortages_mostRecentAreFirst(t *testing.T) {
	l, pods := New(), podsOf(30)
	for i, p := range pods {
		l.Done(noon.Add(time.Duration(i)*time.Second), Attempt{Pod: p, Autoscaler: vpa, Do: decision.Resize, Part: true})
	}
	s := l.Export(delays)[0]
	if n := len(s.Shortages); n != len(pods) || s.Shortages[0].UID != pods[n-1].UID {
		t.Errorf("%d shortages, the first is of pod %s", n, s.Shortages[0].UID)
	}
}

func TestLedger_hostileState_isIgnoredOrBounded(t *testing.T) {
	web := db
	far := noon.Add(1e6 * time.Hour)
	for name, s := range map[string]State{
		"no workload":           {ActingSince: noon, Pods: []PodState{{UID: "0", Do: decision.Evict, At: noon}}},
		"no UID":                {Workload: web, Pods: []PodState{{Do: decision.Evict, At: noon}}},
		"no time":               {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Evict}}},
		"no action":             {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Leave, At: noon}}},
		"unknown action":        {Workload: web, Pods: []PodState{{UID: "0", Do: 99, At: noon}}},
		"unknown kind":          {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Evict, At: noon, Failed: &FailedState{Refusal: decision.Refusal{Kind: 99}}}}},
		"controller elsewhere":  {Workload: web, Replacements: []PendingState{{Controller: cluster.Workload{Namespace: "bank", Name: "x"}, Autoscaler: cluster.Key{Namespace: "shop"}, Evicted: []EvictedPod{{At: noon}}}}},
		"autoscaler elsewhere":  {Workload: web, Replacements: []PendingState{{Controller: web, Autoscaler: cluster.Key{Namespace: "bank"}, Evicted: []EvictedPod{{At: noon}}}}},
		"eviction without time": {Workload: web, Eviction: &EvictionState{Ineffective: 5}},
		"rounds without time":   {Workload: web, Rounds: &RoundsState{Count: 5}},
		"single round":          {Workload: web, Rounds: &RoundsState{At: noon, Count: -1}},
		"deletion without time": {Workload: web, Deletion: &DeletionState{Again: 5}},
		"deletion as attempt":   {Workload: web, Pods: []PodState{{UID: "0", Do: decision.Delete, At: noon}}},
		"shortage without time": {Workload: web, Shortages: []ShortageState{{UID: "0", Parts: 5}}},
		"shortage without UID":  {Workload: web, Shortages: []ShortageState{{Since: noon, Parts: 5}}},
	} {
		l := New()
		l.Restore(noon, []State{s})
		if got := l.Export(delays); len(got) != 0 {
			t.Errorf("%s: state %+v, want none", name, got)
		}
	}
	l := New()
	l.Restore(noon, []State{{
		Workload: web, ActingSince: far, LastEviction: far, Deletion: &DeletionState{At: far, Memory: -1, Again: 1 << 60}, Rounds: &RoundsState{At: far, Count: 1 << 60},
		Shortages: []ShortageState{{UID: "2", Since: far, Parts: -1, Moves: 1 << 60}},
		Eviction:  &EvictionState{At: far, Newest: far, Ineffective: 1 << 60, Before: &EvictionState{At: far, Ineffective: -5, Before: &EvictionState{At: far}}},
		Pods: []PodState{
			{UID: "0", Do: decision.Evict, At: far, Attempts: 1 << 60, Failed: &FailedState{Refusal: decision.Refusal{Kind: decision.DeniedByBudget, Text: strings.Repeat("x", 1<<20)}, Transient: -1, Lost: far, Ready: -7}},
			{UID: "1", Do: decision.Resize, At: far, Attempts: -1},
		},
	}})
	e := l.evictions[web]
	if !e.At.Equal(noon) || e.Ineffective != attempt.MaxCount || e.before.Ineffective != 0 || e.before.before != nil {
		t.Errorf("eviction %+v", e)
	}
	if d := l.rescues[web]; !d.At.Equal(noon) || d.Memory != 0 || d.Again != attempt.MaxCount {
		t.Errorf("deletion %+v", d)
	}
	if r := l.rounds[web]; !r.At.Equal(noon) || r.Count != attempt.MaxCount {
		t.Errorf("rounds %+v", r)
	}
	if s := l.lacking["2"]; !s.Since.Equal(noon) || s.Parts != 0 || s.Moves != attempt.MaxCount {
		t.Errorf("shortage %+v", s)
	}
	r := l.refusals[refusedKey{"0", decision.Evict}]
	if !r.At.Equal(noon) || r.Attempts != attempt.MaxCount || r.Transient != 0 || r.Ready != 0 || !r.Lost.Equal(noon) || len(r.Text) > 400 {
		t.Errorf("refusal %+v", r)
	}
}
