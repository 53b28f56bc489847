// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/scalepoint"
)

// drawFullNodesWithCrashes draws full nodes on which some pods are OOM-killed, and some workloads were left in the middle of a pass.
func drawFullNodesWithCrashes(t *rapid.T) (World, Budget) {
	w, b := drawFullNodes(t)
	b.MakeRoom = room.Move
	b.Rescue = rescue.ByDeletion
	b.MinReplicas = rapid.IntRange(0, 2).Draw(t, "min replicas")
	for _, g := range w.Governed {
		if rapid.Bool().Draw(t, "interrupted") {
			w.Ledger.Restore(noon, []ledger.State{{Workload: g.Autoscaler.Target, ActingSince: noon}})
		}
		for _, p := range g.Pods {
			if rapid.IntRange(0, 3).Draw(t, "killed") > 0 {
				continue
			}
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 3, Now: rapid.Bool().Draw(t, "waits"), Finished: noon.Add(-time.Minute)}
			p.Containers[0].Exit.Started = noon.Add(-rapid.SampledFrom([]time.Duration{2 * time.Minute, time.Hour}).Draw(t, "started"))
			if rapid.Bool().Draw(t, "crashing") {
				p.Ready, p.Crash = false, &cluster.Crash{Version: "1"}
			}
		}
	}
	return w, b
}

// While the outcome of the last pass is unknown, no pod of the workload changes, not even for another pod.
func TestPlan_interruptedWorkloadOnFullNode_noPodOfItChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawFullNodesWithCrashes(t)
		for _, d := range Plan(noon, w, b) {
			if _, interrupted := w.Ledger.Interrupted(noon, d.Pod.Workload()); interrupted && d.Do != decision.Leave {
				t.Fatalf("%s: %s (%s)", d.Pod.Key, d.Do, d.Reason)
			}
		}
	})
}

// A pod that was OOM-killed and is not ready, or gets more memory for that, makes no room for another one.
func TestPlan_oomKilledPodOnFullNode_makesNoRoomForOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawFullNodesWithCrashes(t)
		for _, d := range Plan(noon, w, b) {
			if (d.Rescue || d.Pod.Crash != nil) && (d.Reason.Code == decision.MakesRoom || d.Reason.Code == decision.MovesForRoom) {
				t.Fatalf("%s: %s (%s), rescue %t", d.Pod.Key, d.Do, d.Reason, d.Rescue)
			}
		}
	})
}

// nodeWithSurplus returns two pods with surplus on different nodes, and a pod that needs the surplus of the one on the full node a.
func nodeWithSurplus() (w World, surplus *cluster.Autoscaler) {
	w, surplus = shrinking(2)
	surplus.Mode = cluster.InPlaceOrRecreate
	surplus.Advice[0].Upper = cluster.Amounts(9000, 9<<30)
	needy := *surplus
	needy.Name, needy.Target.Name = "needy", "needy"
	needy.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(1200, 1<<30), Target: cluster.Amounts(1200, 3<<29), Upper: cluster.Amounts(9000, 9<<30)}}}
	g := cluster.Governed{Autoscaler: &needy}
	for _, p := range w.Governed[0].Pods {
		q := *p
		q.Name, q.UID, q.Top, q.Controller = "needy-"+p.UID, "needy-"+p.UID, needy.Target, needy.Target
		g.Pods = append(g.Pods, &q)
	}
	g.Pods[1].Node, w.Governed[0].Pods[1].Node = "b", "b"
	w.Scales[needy.Target] = cluster.Scale{Known: true, Replicas: 2}
	w.Governed = append(w.Governed, g)
	w.Nodes = []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(2000, 2<<30), Ready: true}, {Name: "b", Allocatable: cluster.Amounts(9000, 16<<30), Ready: true}}
	for _, g := range w.Governed {
		w.Pods = append(w.Pods, g.Pods...)
	}
	return w, surplus
}

// actionOn returns the decision on a pod.
func actionOn(w World, name string) decision.Decision {
	b := DefaultBudget()
	b.MakeRoom = room.Move
	for _, d := range Plan(noon, w, b) {
		if d.Pod.Name == name {
			return d
		}
	}
	return decision.Decision{}
}

func TestPlan_neighbourWithSurplus_shrinksUnlessInterruptedOrOOMKilled(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(World)
		want   decision.Act
	}{
		"nothing": {func(World) {}, decision.Resize},
		"interrupted": {func(w World) {
			w.Ledger.Restore(noon, []ledger.State{{Workload: w.Governed[0].Autoscaler.Target, ActingSince: noon}})
		}, decision.Leave},
		"OOM-killed and not ready": {func(w World) {
			p := w.Governed[0].Pods[0]
			p.Ready, p.Crash = false, &cluster.Crash{Version: "1"}
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 3, Started: noon.Add(-time.Hour), Finished: noon.Add(-time.Minute)}
		}, decision.Leave},
	} {
		w, _ := nodeWithSurplus()
		tc.change(w)
		if d := actionOn(w, "db-0"); d.Do != tc.want {
			t.Errorf("%s: %s (%s), want %s", name, d.Do, d.Reason, tc.want)
		}
	}
}

// A neighbour keeps the requests by which a HorizontalPodAutoscaler scales, and shrinks at most to the range of its scale point.
func TestPlan_neighbourIsScaledByHPA_shrinksAtMostToItsScalePoint(t *testing.T) {
	cpu := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 80}
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 1000, Percent: 80, Set: 80}
	for name, tc := range map[string]struct {
		preserve bool
		points   []cluster.ScalePoint
		want     int64 // millicores
	}{
		"left to the HPA":         {false, nil, 1000},
		"scale point not written": {true, nil, 1000},
		"scale point":             {true, []cluster.ScalePoint{point}, scalepoint.RequestsAt(&point).Low},
	} {
		w, a := nodeWithSurplus()
		a.PreserveScalePoint = tc.preserve
		a.Horizontal = []*cluster.HorizontalAutoscaler{{Key: a.Key, Target: a.Target, Utilization: []cluster.UtilizationTarget{cpu}, Points: tc.points}}
		d := actionOn(w, "db-0")
		if d.Do != decision.Resize || d.Reason.Code != decision.MakesRoom {
			t.Errorf("%s: %s (%s), want a resize that makes room", name, d.Do, d.Reason)
			continue
		}
		to, ok := d.With[0].Requests.Get(cluster.CPU)
		if !ok {
			to = 1000
		}
		if to != tc.want {
			t.Errorf("%s: the CPU request becomes %d, want %d", name, to, tc.want)
		}
	}
}
