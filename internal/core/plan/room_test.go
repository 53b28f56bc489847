// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"math/rand/v2"
	"pgregory.net/rapid"
	"reflect"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// Without steps to make room, the pods of the nodes do not matter.
func TestPlan_makeRoomOff_decisionsDoNotDependOnRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		b.MakeRoom = room.Off
		pass := Begin(noon, w, b)
		with := formatDecisions(pass.Decisions())
		if n := len(pass.Rooms); n != 0 {
			t.Fatalf("%d plans for nodes", n)
		}
		w.Pods = nil
		if without := formatDecisions(Plan(noon, w, b)); with != without {
			t.Fatalf("with pods\n%s\nwithout\n%s", with, without)
		}
	})
}

// Every step is allowed: a pod that makes room only gives back, without a restart; a pod that moves is not tied to its node; a part is
// between the present size and the target.
func TestPlan_fullNodes_stepsToMakeRoomAreAllowed(t *testing.T) {
	steps := map[decision.ReasonCode]int{}
	parts := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 60 { // the steps are rare
			w, b := drawFullNodes(t)
			for _, d := range Begin(noon, w, b).entries {
				steps[d.Reason.Code]++
				if d.Reason.Part {
					parts++
				}
				checkStep(t, w, d)
			}
		}
	})
	if steps[decision.MakesRoom] == 0 || steps[decision.MovesForRoom] == 0 || parts == 0 {
		t.Errorf("the drawn worlds need %d shrinks, %d moves and %d parts: too few to check", steps[decision.MakesRoom], steps[decision.MovesForRoom], parts)
	}
}

// checkStep checks a decision that makes room, or that resizes by a part.
func checkStep(t *rapid.T, w World, d entry) {
	switch d.Reason.Code {
	case decision.MakesRoom:
		if d.Do != decision.Resize || d.Fallback || !change.Shrinks(d.Pod, d.With) || change.Restarts(d.Pod, d.With) || d.taken {
			t.Fatalf("%s: %s %s", d.Pod.Key, d.Do, d.Reason)
		}
	case decision.MovesForRoom:
		if d.Do != decision.Evict || d.Pod.LocalData || d.Pod.Tied || d.roomFor == nil {
			t.Fatalf("%s: %s %s", d.Pod.Key, d.Do, d.Reason)
		}
	default:
	}
	if !d.Reason.Part {
		return
	}
	if d.Do != decision.Resize || d.Fallback || !change.Grows(d.Pod, d.With) {
		t.Fatalf("%s: %s by a part: %s", d.Pod.Key, d.Do, d.Reason)
	}
	full := policy.Fit(d.Autoscaler, w.Limits[d.Pod.Namespace], d.Pod)
	for i, f := range d.With {
		now, _ := d.Pod.Container(f.Container).Running()
		for _, res := range cluster.All {
			got, to := f.Requests.Amount(res), full[i].Requests.Amount(res)
			if _, set := f.Requests.Get(res); set && (got < now.Amount(res) || got > max(to, now.Amount(res))) {
				t.Fatalf("%s: the %s request is %d, neither %d nor %d nor between them", d.Pod.Key, res, got, now.Amount(res), to)
			}
		}
	}
}

// The order of the pods does not change what is done to make room.
func TestPlan_fullNodes_orderOfPodsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawFullNodes(t)
		first := Begin(noon, w, b)
		shuffle(rand.New(rand.NewPCG(3, rapid.Uint64().Draw(t, "seed"))), &w)
		again := Begin(noon, w, b)
		if a, b := formatDecisions(first.Decisions()), formatDecisions(again.Decisions()); a != b || !reflect.DeepEqual(first.Rooms, again.Rooms) {
			t.Fatalf("the first plan is\n%sand the second\n%s", a, b)
		}
	})
}

// On each node, resizes that only lower requests come before those that need room.
func TestPlan_fullNodes_shrinksComeFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawFullNodes(t)
		grown := map[string]bool{}
		for _, d := range Plan(noon, w, b) {
			switch {
			case d.Do != decision.Resize || b.MakeRoom == room.Off:
			case change.Grows(d.Pod, d.With) && d.Autoscaler.MakeRoom != "off":
				grown[d.Pod.Node] = true
			case grown[d.Pod.Node] && change.Shrinks(d.Pod, d.With):
				t.Fatalf("%s shrinks after another pod on its node has grown", d.Pod.Key)
			}
		}
	})
}

// drawFullNodes draws two or three nodes with pods that need more, have too much, or wait for room.
func drawFullNodes(t *rapid.T) (World, Budget) {
	w := World{Scales: map[cluster.Workload]cluster.Scale{}, Limits: map[string]policy.Limits{}, Ledger: ledger.New()}
	for i := range rapid.IntRange(2, 3).Draw(t, "nodes") {
		w.Nodes = append(w.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i), Allocatable: cluster.Amounts(4000, 4<<30), Ready: true})
	}
	var as []*cluster.Autoscaler
	for i := range rapid.IntRange(2, 6).Draw(t, "workloads") {
		top := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: fmt.Sprintf("ns%d", i%2), Name: fmt.Sprintf("w%d", i)}
		amounts := func(what string) cluster.Resources {
			return cluster.Amounts(100*rapid.Int64Range(1, 20).Draw(t, what), (100<<20)*rapid.Int64Range(1, 12).Draw(t, what))
		}
		size, target := amounts("size"), amounts("target")
		if rapid.Bool().Draw(t, "has its target") {
			target = size
		}
		as = append(as, &cluster.Autoscaler{
			Key: cluster.Key{Namespace: top.Namespace, Name: top.Name}, Target: top, Mode: cluster.InPlaceOrRecreate,
			MakeRoom: rapid.SampledFrom([]string{"", "", "", "", "off", "shrink", "split", "move"}).Draw(t, "annotation"),
			Advice:   []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(target.CPU*9/10, target.Memory*9/10), Target: target, Upper: cluster.Amounts(target.CPU*3, target.Memory*3)}}},
		})
		n := rapid.IntRange(2, 4).Draw(t, "pods")
		w.Scales[top] = cluster.Scale{Known: true, Replicas: int32(n)}
		for j := range n {
			p := &cluster.Pod{
				Key: cluster.Key{Namespace: top.Namespace, Name: fmt.Sprintf("%s-%d", top.Name, j)}, UID: fmt.Sprintf("%s-%d", top.Name, j), Controller: top, Top: top,
				Node:    rapid.SampledFrom([]string{"n0", "n0", "n1", "n2"}).Draw(t, "node"),
				Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Hour), Phase: cluster.Running, Ready: rapid.IntRange(0, 15).Draw(t, "ready") > 0,
				LocalData: rapid.IntRange(0, 5).Draw(t, "local data") == 0, Tied: rapid.IntRange(0, 5).Draw(t, "tied") == 0,
				Deleting:   rapid.IntRange(0, 15).Draw(t, "deleting") == 0,
				Containers: []cluster.Container{{Name: "app", Requests: size, Restart: cluster.Set(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "restart"))}},
			}
			if rapid.Bool().Draw(t, "deferred") && target.CPU >= size.CPU && target.Memory >= size.Memory {
				p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: noon.Add(-time.Minute)}
				p.Containers[0].Requests, p.Containers[0].Applied = target, &cluster.Applied{Requests: size}
			}
			w.Pods = append(w.Pods, p)
		}
	}
	for i := range w.Nodes { // full, but for a little
		used := room.Amount{CPU: 100 * rapid.Int64Range(0, 6).Draw(t, "free"), Memory: (100 << 20) * rapid.Int64Range(0, 6).Draw(t, "free")}
		for _, p := range w.Pods {
			if p.Node == w.Nodes[i].Name {
				used = used.Add(placement.Held(p))
			}
		}
		w.Nodes[i].Allocatable = cluster.Amounts(used.CPU, used.Memory)
	}
	w.Nodes = append(w.Nodes, cluster.Node{Name: "reserve", Allocatable: cluster.Amounts(4000, 4<<30), Ready: true})
	w.Governed = cluster.Gather(as, w.Pods, true)
	b := DefaultBudget()
	b.MakeRoom = rapid.SampledFrom([]room.Allowed{room.Move, room.Split, room.Move, room.Shrink, room.Move, room.Off}).Draw(t, "make room")
	return w, b
}

// A node is planned from what its pods hold: a pod whose resize waits holds what it runs with, and any other pod the larger of that and
// what it asks for. The scheduler counts the larger one in both cases.
func TestHeld_pendingResizes_countAsTheKubeletAndTheSchedulerDo(t *testing.T) {
	small, large := cluster.Amounts(100, 1000), cluster.Amounts(300, 500)
	for name, tc := range map[string]struct {
		spec, runs    cluster.Resources
		state         cluster.ResizeState
		held, counted room.Amount
	}{
		"no resize":              {small, small, cluster.NoResize, room.Of(small), room.Of(small)},
		"asked, not seen yet":    {large, small, cluster.NoResize, room.Amount{CPU: 300, Memory: 1000}, room.Amount{CPU: 300, Memory: 1000}},
		"waits for room":         {large, small, cluster.ResizeDeferred, room.Of(small), room.Amount{CPU: 300, Memory: 1000}},
		"can never fit":          {large, small, cluster.ResizeInfeasible, room.Of(small), room.Of(small)},
		"is in progress":         {large, small, cluster.ResizeInProgress, room.Amount{CPU: 300, Memory: 1000}, room.Amount{CPU: 300, Memory: 1000}},
		"shrinks, not yet done":  {small, cluster.Amounts(400, 2000), cluster.NoResize, room.Amount{CPU: 400, Memory: 2000}, room.Amount{CPU: 400, Memory: 2000}},
		"failed, memory in use":  {small, cluster.Amounts(400, 2000), cluster.ResizeError, room.Amount{CPU: 400, Memory: 2000}, room.Amount{CPU: 400, Memory: 2000}},
		"an unknown state waits": {large, small, cluster.ResizeUnknown, room.Amount{CPU: 300, Memory: 1000}, room.Amount{CPU: 300, Memory: 1000}},
	} {
		p := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Requests: tc.spec}, {Name: "first", Role: cluster.Init, Requests: cluster.Amounts(50, 1)}}}
		if tc.spec != tc.runs {
			p.Containers[0].Applied = &cluster.Applied{Requests: tc.runs}
		}
		if tc.state != cluster.NoResize {
			p.Resize = &cluster.Resize{State: tc.state}
		}
		if h, c := placement.Held(p), placement.Counted(p); h != tc.held || c != tc.counted {
			t.Errorf("%s: holds %v and counts as %v, want %v and %v", name, h, c, tc.held, tc.counted)
		}
	}
}
