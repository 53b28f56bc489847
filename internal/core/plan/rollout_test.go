// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
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

func delayOf(d time.Duration) cluster.Settings {
	return cluster.Settings{InitialDelay: cluster.Setting[time.Duration]{Value: d, Set: true}}
}

func TestPlan_freezesWindowsAndDelays_blockChanges(t *testing.T) {
	for name, c := range map[string]struct {
		rules cluster.ChangeRules
		more  rollout.Rules
		oom   bool
		want  decision.Reason
	}{
		"no rules":            {want: decision.Reason{Code: decision.AboveRange}},
		"VPA is frozen":       {rules: cluster.ChangeRules{Frozen: true}, want: decision.Reason{Code: decision.Frozen, Text: "annotation podfit.dev/freeze of VPA shop/db"}},
		"namespace is frozen": {more: rollout.Rules{Namespace: cluster.ChangeRules{Frozen: true}}, want: decision.Reason{Code: decision.Frozen, Text: "annotation podfit.dev/freeze of namespace shop"}},
		"cluster is frozen":   {more: rollout.Rules{Cluster: cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "f"}}}, want: decision.Reason{Code: decision.Frozen, Text: "ConfigMap kube-system/f"}},
		"frozen, OOM-killed":  {rules: cluster.ChangeRules{Frozen: true}, oom: true, want: decision.Reason{Code: decision.Frozen, Text: "annotation podfit.dev/freeze of VPA shop/db"}},
		"window is closed":    {rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}, want: decision.Reason{Code: decision.OutsideWindow, Until: noon.Add(10 * time.Hour)}},
		"closed, OOM-killed":  {rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}, oom: true, want: decision.Reason{Code: decision.OutOfMemory}},
		"window of the namespace": {more: rollout.Rules{Namespace: cluster.ChangeRules{Windows: []cluster.ChangeWindow{nightly}}},
			want: decision.Reason{Code: decision.OutsideWindow, Until: noon.Add(10 * time.Hour)}},
		"initial delay":              {rules: cluster.ChangeRules{Settings: delayOf(time.Hour)}, want: decision.Reason{Code: decision.InitialDelay, Until: noon.Add(time.Minute)}},
		"initial delay is over":      {rules: cluster.ChangeRules{Settings: delayOf(59 * time.Minute)}, want: decision.Reason{Code: decision.AboveRange}},
		"initial delay, OOM-killed":  {rules: cluster.ChangeRules{Settings: delayOf(time.Hour)}, oom: true, want: decision.Reason{Code: decision.OutOfMemory}},
		"invalid window":             {rules: cluster.ChangeRules{WindowProblem: "unknown zone"}, want: decision.Reason{Code: decision.OutsideWindow, Text: "unknown zone"}},
		"invalid window, OOM-killed": {rules: cluster.ChangeRules{WindowProblem: "unknown zone"}, oom: true, want: decision.Reason{Code: decision.OutOfMemory}},
	} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(1)
			a.Rules, a.MinReplicas, a.AdvisedSince = c.rules, 1, noon.Add(-59*time.Minute)
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
			acts := c.want.Code == decision.AboveRange || c.want.Code == decision.OutOfMemory
			if got.Code != c.want.Code || !acts && got != c.want || (ds[0].Do == decision.Evict) != acts {
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
