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
	"podfit.dev/podfit/internal/core/rescue"
)

// One of the new pods replaces a pod that was evicted before, the other one the pod that was deleted. It is not known which: while one of
// them starts, the next pod is not deleted, unless it does not start for Budget.StuckFor. In a StatefulSet, which creates no pod for
// something else, the next pod is not deleted before all of them are ready.
func TestPlan_oneOfTwoNewPodsIsReady_nextDeletionWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		waiting time.Duration // age of the new pod that is not ready; 0: there is none
		kind    string
		want    decision.Act
	}{
		"all new pods are ready":       {0, "ReplicaSet", decision.Delete},
		"one is starting":              {time.Minute, "ReplicaSet", decision.Leave},
		"one does not start for long":  {11 * time.Minute, "ReplicaSet", decision.Delete},
		"the same in a StatefulSet":    {11 * time.Minute, "StatefulSet", decision.Leave},
		"all are ready, StatefulSet":   {0, "StatefulSet", decision.Delete},
		"one starts, almost too slow ": {9 * time.Minute, "ReplicaSet", decision.Leave},
	} {
		w, a := growing(4)
		a.Mode = cluster.Recreate
		b := DefaultBudget()
		b.Rescue = rescue.ByDeletion
		pods := w.Governed[0].Pods
		for _, p := range pods {
			p.Controller.Kind = tt.kind
		}
		gone, killed, ready, starting := pods[0], pods[1], pods[2], pods[3]
		deleted := noon.Add(-20 * time.Minute)
		w.Ledger = ledger.New()
		w.Ledger.Done(deleted, ledger.Attempt{Pod: gone, Autoscaler: a.Key, Do: decision.Delete, With: nil, Newest: gone.Created, Memory: 1 << 29})
		kill := cluster.Exit{OOM: true, Now: true, Kills: 3, Started: noon.Add(-2 * time.Minute), Finished: noon.Add(-time.Minute)}
		killed.Ready, killed.Crash, killed.Containers[0].Exit = false, &cluster.Crash{Version: "1", Labels: []string{"app=web"}}, &kill
		w.Ledger.Refused(noon.Add(-time.Second), ledger.Attempt{Pod: killed, Autoscaler: a.Key, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget}, 4)
		ready.Created = deleted.Add(5 * time.Minute)
		w.Governed[0].Pods = []*cluster.Pod{killed, ready}
		if tt.waiting > 0 {
			starting.Created, starting.Phase, starting.Ready, starting.Node = noon.Add(-tt.waiting), cluster.Pending, false, ""
			w.Governed[0].Pods = append(w.Governed[0].Pods, starting)
		}
		w.Scales[killed.Controller] = cluster.Scale{Known: true, Replicas: int32(len(w.Governed[0].Pods))}
		w.Budgets = map[string][]cluster.DisruptionBudget{killed.Namespace: {{
			Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Values: []string{"web"}}}}, Healthy: 1, Desired: 2, Current: true,
		}}}
		for _, d := range Plan(noon, w, b) {
			if d.Pod == killed && d.Do != tt.want {
				t.Errorf("%s: %s (%s), want %s", name, d.Do, d.Reason, tt.want)
			}
		}
	}
}

// A quota or a webhook may refuse the replacements of pods that are OOM-killed again and again. So no more of them are evicted than may be
// unavailable until replacements exist, and the others follow.
func TestPlan_allPodsAreDown_noMoreAreEvictedThanHaveReplacements(t *testing.T) {
	for name, tt := range map[string]struct {
		tolerance float64
		rescue    rescue.Mode
		evictions int
	}{
		"tolerance of a half, with rescue":    {0.5, rescue.ByDeletion, 1}, // its effect is not known yet
		"tolerance of a half, without rescue": {0.5, rescue.Off, 2},        // the effect of more than two would be unknown
		"no tolerance, with rescue":           {0, rescue.ByDeletion, 1},
		"no tolerance, without rescue":        {0, rescue.Off, 1},
	} {
		w, a := growing(6)
		a.Mode = cluster.Recreate
		for _, p := range w.Governed[0].Pods {
			p.Ready = false
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)}
		}
		b := DefaultBudget()
		b.Tolerance, b.Rescue = tt.tolerance, tt.rescue
		pass := Begin(noon, w, b)
		first := evictions(pass)
		if len(first) != tt.evictions {
			t.Errorf("%s: %d evictions, want %d", name, len(first), tt.evictions)
			continue
		}
		for _, d := range first {
			pass.Done(d)
			w.Governed[0].Pods = slices.DeleteFunc(w.Governed[0].Pods, func(p *cluster.Pod) bool { return p == d.Pod })
		}
		pass.Learn()
		pass = Begin(noon.Add(time.Minute), w, b)
		if n := len(evictions(pass)); n != 0 {
			t.Errorf("%s: %d more evictions before replacements exist", name, n)
		}
		pass.Learn()
		for i, d := range first {
			next := *d.Pod
			next.UID, next.Name, next.Node, next.Phase = fmt.Sprint("next", i), fmt.Sprint("next-", i), "a", cluster.Pending
			next.Created = noon.Add(90 * time.Second)
			next.Containers = []cluster.Container{{Name: "app", Requests: d.With[0].Requests}}
			w.Governed[0].Pods = append(w.Governed[0].Pods, &next)
		}
		if n := len(evictions(Begin(noon.Add(2*time.Minute), w, b))); n != tt.evictions {
			t.Errorf("%s: %d evictions when replacements exist, want %d", name, n, tt.evictions)
		}
	}
}

// A pod that is down has taken the only replacement that may be missing, and its eviction is refused: a pod that is stuck has its turn in the
// same pass.
func TestPass_evictionOfPodThatIsDownIsRefused_stuckPodHasItsTurn(t *testing.T) {
	w, a := growing(3)
	a.Mode = cluster.Recreate
	pods := w.Governed[0].Pods
	pods[0].Ready = false
	pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)}
	pods[1].Ready, pods[1].ReadySince = false, noon.Add(-time.Hour)
	b := DefaultBudget()
	b.Tolerance, b.MinReplicas = 0, 1
	pass := Begin(noon, w, b)
	first := evictions(pass)
	if len(first) != 1 || first[0].Pod != pods[0] {
		t.Fatalf("%d evictions, want that of the pod that is down", len(first))
	}
	next := pass.Refused(first[0], decision.Refusal{Kind: decision.Denied, Text: "denied"})
	if len(next) != 1 || next[0].Pod != pods[1] || next[0].Do != decision.Evict {
		t.Errorf("%d decisions follow, want the eviction of the stuck pod", len(next))
	}
}
