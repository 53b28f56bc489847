// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// withRoles returns a world with three pods, of which the first is the leader, and a size for followers.
func withRoles(mode cluster.Mode) (World, *cluster.Autoscaler) {
	w, a := shrinking(3)
	a.Mode, a.MinReplicas = mode, 1
	a.Rules.RoleLabel = "role"
	a.Advice[0].Groups = []cluster.GroupSize{{Role: "follower", Target: cluster.Resources{}.Set(cluster.CPU, 30)}}
	for i, p := range w.Governed[0].Pods {
		p.Containers[0].Requests = cluster.Amounts(30, 128<<20)
		p.Marks = &cluster.Marks{Labels: "role=follower"}
		if i == 0 {
			p.Containers[0].Requests = cluster.Amounts(100, 128<<20)
			p.Marks = &cluster.Marks{Labels: "role=leader"}
		}
	}
	return w, a
}

func TestPlan_podsHaveTheSizeOfTheirRole_noneChanges(t *testing.T) {
	w, _ := withRoles(cluster.InPlaceOrRecreate)
	for _, d := range Plan(noon, w, DefaultBudget()) {
		if d.Do != decision.Leave || d.Reason.Code != decision.Fits {
			t.Errorf("%s: %s", d.Pod.Name, d.Reason)
		}
	}
}

// The role moves from pod 0 to pod 1: both are resized in the same pass.
func TestPlan_roleMoves_bothPodsAreResized(t *testing.T) {
	w, _ := withRoles(cluster.InPlaceOrRecreate)
	pods := w.Governed[0].Pods
	pods[0].Marks, pods[1].Marks = pods[1].Marks, pods[0].Marks
	b := DefaultBudget()
	b.SkipInPlace = true
	want := map[string]int64{"db-0": 30, "db-1": 100}
	for _, d := range Plan(noon, w, b) {
		cpu, changes := want[d.Pod.Name]
		if changes != (d.Do == decision.Resize) || d.Fallback || changes && change.Total(d.Pod, d.With).CPU != cpu {
			t.Errorf("%s: %v %s, fallback %t", d.Pod.Name, d.Do, d.Reason, d.Fallback)
		}
	}
}

// An eviction would move the role again.
func TestPlan_resizeIsNotPossible_podWithRoleIsNotEvicted(t *testing.T) {
	for name, change := range map[string]func(*cluster.Pod){
		"infeasible": func(p *cluster.Pod) {
			p.Resize = &cluster.Resize{State: cluster.ResizeInfeasible, Since: noon.Add(-time.Hour)}
		},
		"deferred": func(p *cluster.Pod) {
			p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: noon.Add(-time.Hour)}
		},
		"QoS class": func(p *cluster.Pod) {
			p.QoS, p.Containers[0].Limits = cluster.Guaranteed, p.Containers[0].Requests
		},
	} {
		w, a := withRoles(cluster.InPlaceOrRecreate)
		pods := w.Governed[0].Pods
		pods[0].Marks, pods[1].Marks = pods[1].Marks, pods[0].Marks
		change(pods[1])
		a.Rules.IgnoreProtection = "always" // of the namespace
		for _, d := range Plan(noon, w, DefaultBudget()) {
			if d.Do == decision.Evict || d.Do == decision.Surge || d.Do == decision.Delete {
				t.Errorf("%s: %s: %v %s", name, d.Pod.Name, d.Do, d.Reason)
			}
		}
		a.Rules.RoleLabel = ""
		pods[1].Containers[0].Requests = cluster.Amounts(30, 128<<20)
		evicts := false
		for _, d := range Plan(noon, w, DefaultBudget()) {
			evicts = evicts || d.Do == decision.Evict
		}
		if !evicts && name != "QoS class" {
			t.Errorf("%s: without roles no pod is evicted, so the test shows nothing", name)
		}
	}
}

func TestPlan_modeRecreate_rolesHaveNoEffect(t *testing.T) {
	w, _ := withRoles(cluster.Recreate)
	for _, d := range Plan(noon, w, DefaultBudget()) {
		if d.Pod.Name != "db-0" && (len(d.With) != 1 || d.With[0].Requests.CPU != 100) {
			t.Errorf("%s: %v", d.Pod.Name, d.With)
		}
	}
}

// A replacement runs on the same node, so its role does not move.
func TestPlan_podOfDaemonSetIsSizedByItsNode_isEvicted(t *testing.T) {
	w, a := withRoles(cluster.Recreate)
	a.Rules.RoleLabel, a.Target.Kind = "", "DaemonSet"
	a.NodeSizes = map[string]string{}
	a.Advice[0].Groups[0].Role = "4cpu-16Gi"
	for i, p := range w.Governed[0].Pods {
		p.Node = p.Name
		a.NodeSizes[p.Node] = "4cpu-16Gi"
		if i == 0 {
			a.NodeSizes[p.Node] = "64cpu-256Gi"
			p.Containers[0].Requests = cluster.Amounts(30, 128<<20)
		}
	}
	for _, d := range Plan(noon, w, DefaultBudget()) {
		if wrong := d.Pod.Name == "db-0"; wrong != (d.Do == decision.Evict) || wrong && change.Total(d.Pod, d.With).CPU != 100 {
			t.Errorf("%s: %v %s", d.Pod.Name, d.Do, d.Reason)
		}
	}
}

// Without the right to read nodes, a pod of the right size would get that of another node.
func TestPlan_sizeOfTheNodeIsUnknown_podIsLeft(t *testing.T) {
	w, a := withRoles(cluster.InPlaceOrRecreate)
	a.Rules.RoleLabel, a.Target.Kind = "", "DaemonSet"
	for _, d := range Plan(noon, w, DefaultBudget()) {
		if d.Do != decision.Leave || d.Reason != (decision.Reason{Code: decision.NodeSizeUnknown, Text: d.Pod.Node}) {
			t.Errorf("%s: %v %s", d.Pod.Name, d.Do, d.Reason)
		}
	}
}
