// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
)

// nightly is a window from 22:00 to 23:00.
var nightly = cluster.ChangeWindow{
	Minutes: 1, Hours: 1 << 22, Days: 1<<32 - 1, Months: 1<<13 - 1, Weekdays: 1<<7 - 1, AnyDay: true, AnyWeekday: true,
	Duration: time.Hour, Zone: time.UTC,
}

// oomKilled makes a pod one that was OOM-killed soon after its start, and needs more memory.
func oomKilled(w *World, a *cluster.Autoscaler, i int) {
	p := *w.Governed[0].Pods[i]
	p.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 64<<20), Exit: &cluster.Exit{
		OOM: true, Started: noon.Add(-2 * time.Minute), Finished: noon.Add(-time.Minute), Now: true,
	}}}
	w.Governed[0].Pods[i] = &p
	a.Advice[0].Target = cluster.Amounts(100, 128<<20)
}

func TestPlan_freezesAndWindows_blockChanges(t *testing.T) {
	for name, c := range map[string]struct {
		rules cluster.ChangeRules
		more  rollout.Rules
		oom   bool
		want  Reason
	}{
		"no rules":            {want: Reason{Code: AboveRange}},
		"VPA is frozen":       {rules: cluster.ChangeRules{Frozen: true}, want: Reason{Code: Frozen, Text: "annotation podfit.dev/freeze of VPA shop/db"}},
		"namespace is frozen": {more: rollout.Rules{Namespace: cluster.ChangeRules{Frozen: true}}, want: Reason{Code: Frozen, Text: "annotation podfit.dev/freeze of namespace shop"}},
		"cluster is frozen":   {more: rollout.Rules{Cluster: cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "f"}}}, want: Reason{Code: Frozen, Text: "ConfigMap kube-system/f"}},
		"frozen, OOM-killed":  {rules: cluster.ChangeRules{Frozen: true}, oom: true, want: Reason{Code: Frozen, Text: "annotation podfit.dev/freeze of VPA shop/db"}},
		"window is closed":    {rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}, want: Reason{Code: OutsideWindow, Until: noon.Add(10 * time.Hour)}},
		"closed, OOM-killed":  {rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}, oom: true, want: Reason{Code: OutOfMemory}},
		"window of the namespace": {more: rollout.Rules{Namespace: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}},
			want: Reason{Code: OutsideWindow, Until: noon.Add(10 * time.Hour)}},
		"invalid window":             {rules: cluster.ChangeRules{WindowProblem: "unknown zone"}, want: Reason{Code: OutsideWindow, Text: "unknown zone"}},
		"invalid window, OOM-killed": {rules: cluster.ChangeRules{WindowProblem: "unknown zone"}, oom: true, want: Reason{Code: OutOfMemory}},
	} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(1)
			a.Rules, a.MinReplicas = c.rules, 1
			if c.oom {
				oomKilled(&w, a, 0)
			}
			rules := c.more
			rules.Autoscaler = a
			w.Rules = map[cluster.Key]rollout.Rules{a.Key: rules}
			ds := Plan(noon, w, DefaultBudget())
			if len(ds) != 1 {
				t.Fatalf("%d decisions", len(ds))
			}
			got := ds[0].Reason
			acts := c.want.Code == AboveRange || c.want.Code == OutOfMemory
			if got.Code != c.want.Code || !acts && got != c.want || (ds[0].Do == Evict) != acts {
				t.Errorf("%s, reason %+v", ds[0].Do, got)
			}
		})
	}
}

func TestPlan_windowOpens_changesPods(t *testing.T) {
	w, a := shrinking(3)
	a.Rules.Windows = []cluster.ChangeWindow{nightly}
	for now, want := range map[time.Time]int{noon: 0, noon.Add(10*time.Hour - 1): 0, noon.Add(10 * time.Hour): 1, noon.Add(11*time.Hour - 1): 1, noon.Add(11 * time.Hour): 0} {
		if got := evictions(Begin(now, w, DefaultBudget())); len(got) != want {
			t.Errorf("%v: %d evictions, want %d", now, len(got), want)
		}
	}
}

// The search for the next window may take a millisecond, and a workload may have thousands of pods.
func TestPlan_manyPodsOutsideOfTheWindow_windowsAreSearchedOnce(t *testing.T) {
	w, a := shrinking(50)
	a.Rules.Windows = []cluster.ChangeWindow{{Minutes: 1, Hours: 1, Days: 1 << 29, Months: 1 << 2, Weekdays: 127, AnyWeekday: true, Duration: time.Hour, Zone: time.UTC}}
	p := Begin(noon, w, DefaultBudget())
	if len(p.closed) != 1 {
		t.Errorf("the windows of %d autoscalers were searched", len(p.closed))
	}
	for _, d := range p.Decisions() {
		if d.Reason.Code != OutsideWindow || d.Reason.Until.IsZero() {
			t.Errorf("%s: %s", d.Pod.Name, d.Reason)
		}
	}
}
