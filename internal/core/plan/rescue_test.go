// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
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
		b.Rescue = RescueByDeletion
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
			Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Key: "app", Values: []string{"web"}}}}, Healthy: 1, Desired: 2, Current: true,
		}}}
		for _, d := range Plan(noon, w, b) {
			if d.Pod == killed && d.Do != tt.want {
				t.Errorf("%s: %s (%s), want %s", name, d.Do, d.Reason, tt.want)
			}
		}
	}
}
