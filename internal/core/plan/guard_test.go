// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
)

// guarded returns nodes of 16 GiB, and workloads of two pods that request 2 GiB each: the first pod of each is on n1, and the other on n2. All have the
// recommended size. The first pod of workload a uses 6 GiB, that of b 5 and that of c 1, so n1 is nearly out of memory.
func guarded() (World, Budget) {
	const gi = 1 << 30
	w := World{Scales: map[cluster.Workload]cluster.Scale{}, Ledger: ledger.New()}
	for _, node := range []string{"n1", "n2", "n3"} {
		w.Nodes = append(w.Nodes, cluster.Node{Name: node, Allocatable: cluster.Amounts(16000, 16*gi), Ready: true})
	}
	alarm := guard.Alarm{Node: "n1", Allocatable: 16 * gi, Used: 15 * gi, Excess: 2 * gi, Usage: map[cluster.Key]int64{}}
	used := map[string]int64{"a": 6 * gi, "b": 5 * gi, "c": gi}
	var all []*cluster.Autoscaler
	for _, name := range []string{"a", "b", "c"} {
		of := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: name}
		size := cluster.Amounts(500, 2*gi)
		all = append(all, &cluster.Autoscaler{
			Key: cluster.Key{Namespace: "shop", Name: name}, Target: of, Mode: cluster.Recreate, MemoryLimits: cluster.LimitRule{Peaks: true},
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: size, Target: size, Upper: size}}},
		})
		for i := range 2 {
			p := &cluster.Pod{
				Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", name, i)}, UID: fmt.Sprintf("%s-%d", name, i), Controller: of, Top: of, Node: fmt.Sprintf("n%d", i+1), Phase: cluster.Running,
				QoS: cluster.Burstable, Ready: true, Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Hour + 10*time.Second),
				Containers: []cluster.Container{{Name: "app", Requests: size}},
			}
			w.Pods = append(w.Pods, p)
			if i == 0 {
				alarm.Usage[p.Key] = used[name]
			}
		}
		w.Scales[of] = cluster.Scale{Known: true, Replicas: 2}
	}
	w.Ledger.Guard.Alarms = []guard.Alarm{alarm}
	w.Governed = cluster.Gather(all, w.Pods, false)
	return w, DefaultBudget()
}

// removing returns the state of a surge that removes a pod.
func removing(p *cluster.Pod, deadline time.Time) *surge.State {
	return &surge.State{Active: map[cluster.Workload]cluster.Surge{p.Top: {UID: p.UID, Pod: p.Name, Deadline: deadline}}}
}

func TestPlan_nodeIsNearlyOutOfMemory_onePodAboveItsRequestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*World, *Budget)
		want   string // the pod that moves
	}{
		"the one that frees enough":             {func(*World, *Budget) {}, "a-0"},
		"no alarm":                              {func(w *World, _ *Budget) { w.Ledger.Guard.Alarms = nil }, ""},
		"the node rests":                        {func(w *World, _ *Budget) { w.Ledger.Guard.Alarms[0].Rests = true }, ""},
		"a pod has just moved":                  {func(w *World, _ *Budget) { w.Ledger.Guard.Alarms[0].Waits = true }, ""},
		"one frees all, and another only a bit": {func(w *World, _ *Budget) { w.Ledger.Guard.Alarms[0].Excess = 6 << 30 }, "a-0"},
		"the lowest priority, if it frees less": {func(w *World, _ *Budget) { w.Pods[0].Priority, w.Pods[2].Priority = 1000, 10 }, "b-0"},
		"a pod of a DaemonSet has a lower one": {func(w *World, _ *Budget) {
			agent := *w.Pods[4]
			agent.Key.Name, agent.UID, agent.Controller.Kind, agent.Priority = "agent", "agent", "DaemonSet", -5
			w.Ledger.Guard.Alarms[0].Usage[agent.Key] = 3 << 30
			w.Pods = append(w.Pods, &agent)
		}, "a-0"},
		"one that may not move has a lower one": {func(w *World, _ *Budget) {
			w.Pods[0].Priority, w.Governed[0].Autoscaler.Mode = -5, cluster.Off
		}, ""},
		"one within its request has a lower one": {func(w *World, _ *Budget) { w.Pods[4].Priority = -5 }, "a-0"},
		"no other node has room": {func(w *World, _ *Budget) {
			w.Nodes[1].Allocatable.Memory, w.Nodes[2].Allocatable.Memory = 7<<30, 1<<30
		}, ""},
		"the other nodes are nearly out of memory, too": {func(w *World, _ *Budget) {
			w.Ledger.Guard.Alarms = append(w.Ledger.Guard.Alarms, guard.Alarm{Node: "n2", Rests: true}, guard.Alarm{Node: "n3", Rests: true})
		}, ""},
		"a pod terminates":                           {func(w *World, _ *Budget) { w.Pods[4].Deleting = true }, "a-0"}, // its memory does not count
		"a surge removes a pod":                      {func(w *World, _ *Budget) { w.Surges = removing(w.Pods[4], noon.Add(time.Minute)) }, ""},
		"a freeze keeps a surge from removing a pod": {func(w *World, _ *Budget) { w.Surges = removing(w.Pods[4], noon.Add(-time.Hour)) }, "a-0"},
		"--updater-rules=upstream":                   {func(_ *World, b *Budget) { b.UpstreamRules = true }, ""},
		"too few replicas for one":                   {func(w *World, _ *Budget) { w.Scales[w.Pods[0].Controller] = cluster.Scale{Known: true, Replicas: 1} }, "b-0"},
		"--make-room=off":                            {func(_ *World, b *Budget) { b.MakeRoom = room.Off }, ""},
		"one VPA forbids it":                         {func(w *World, _ *Budget) { w.Governed[0].Autoscaler.MakeRoom = "off" }, "b-0"},
		"a VPA only resizes":                         {func(w *World, _ *Budget) { w.Governed[0].Autoscaler.Mode = cluster.InPlace }, "b-0"},
		"a pod has data on its node":                 {func(w *World, _ *Budget) { w.Pods[0].LocalData = true }, "b-0"},
		"pods of nodes are not known":                {func(w *World, _ *Budget) { w.Pods = nil }, ""},
		"nothing is said of the node":                {func(w *World, _ *Budget) { w.Ledger.Guard.Alarms[0].Node = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := guarded()
			c.change(&w, &b)
			got := ""
			for _, d := range Plan(noon, w, b) {
				if d.Do != decision.Leave {
					got += d.Pod.Name
					if d.Do != decision.Evict || d.Reason.Code != decision.NodeNearlyFull || !strings.Contains(d.Reason.String(), "The pods of node n1 use 94 % of its memory") {
						t.Errorf("%s %s: %s", d.Do, d.Pod.Name, d.Reason)
					}
				}
			}
			if got != c.want {
				t.Errorf("moves %q, want %q", got, c.want)
			}
		})
	}
}

// A pod of a Deployment is surged, unless its node has room for the new pod, too, which would then use its memory.
func TestPlan_nodeWillSoonBeOutOfMemory_reasonSaysSoAndDeploymentIsSurged(t *testing.T) {
	for gib, want := range map[int64]decision.Act{7: decision.Surge, 16: decision.Evict} {
		w, b := guarded()
		w.Ledger.Guard.Alarms[0].Coming, w.Surges, w.Nodes[0].Allocatable.Memory = true, &surge.State{}, gib<<30
		for _, p := range w.Pods {
			p.Top.Kind = "Deployment"
		}
		for i := range w.Governed {
			w.Governed[i].Autoscaler.Target.Kind = "Deployment"
		}
		d := decisionOf(Plan(noon, w, b), "a-0")
		if text := d.Reason.String(); d.Do != want || !strings.Contains(text, "node n1 will soon use more than 85 % of its memory and now use 94 %") {
			t.Errorf("%d GiB: %s: %s", gib, d.Do, text)
		}
	}
}

// A node under pressure has no pod that moves for another reason, so the reason says that pressure is the sign, in its data and its text. The move counts as one
// because of pressure.
func TestPlan_nodeIsUnderPressure_reasonSaysSoAndTheMoveCounts(t *testing.T) {
	w, b := guarded()
	alarm := &w.Ledger.Guard.Alarms[0]
	alarm.Used, alarm.Excess, alarm.Coming, alarm.Pressure = 12<<30, 16<<30/20, true, 0.289
	for range guard.MostMoves {
		p := Begin(noon, w, b)
		p.Learn()
		d := decisionOf(p.Decisions(), "a-0")
		if text := d.Reason.String(); d.Do != decision.Evict || d.Reason.Code != decision.NodeNearlyFull || d.Reason.Have != 29 ||
			!strings.Contains(text, "The pods of node n1 wait for memory 29 % of the time (pressure) and use 75 % of its memory, and this one") {
			t.Fatalf("%s, %d: %s", d.Do, d.Reason.Have, text)
		}
		p.Done(d)
		book := w.Ledger.Guard
		w.Ledger = ledger.New() // so that a-0 may be evicted again
		w.Ledger.Guard = book
	}
	for _, after := range [...]time.Duration{0, 3 * time.Hour, 25 * time.Hour} { // in this order: the book forgets
		w.Ledger.Guard.Observe(noon.Add(after), w.Nodes, nil, w.Pods, nil)
		if may := w.Ledger.Guard.MayMove(guard.Move{Of: w.Pods[0].Workload(), To: "n3", Pressed: true}, nil); may != (after > 24*time.Hour) {
			t.Errorf("after %v: a fourth pod may move because of pressure: %v", after, may)
		}
	}
}

// A move counts if it was made, and if it may have been made. A refused one does not. In each case nothing is tried for a minute.
func TestPass_outcomeOfAMove_isCounted(t *testing.T) {
	for name, c := range map[string]struct {
		report func(*Pass, decision.Decision)
		next   string
		counts bool
	}{
		"done":    {func(p *Pass, d decision.Decision) { p.Done(d) }, "", true},
		"unknown": {func(p *Pass, d decision.Decision) { p.Refused(d, decision.Refusal{Kind: decision.OutcomeIsUnknown}) }, "b-0", true},
		"refused": {func(p *Pass, d decision.Decision) { p.Refused(d, decision.Refusal{Kind: decision.DeniedByBudget}) }, "a-0", false},
	} {
		w, b := guarded()
		watched := map[string]bool{"n1": true}
		samples := map[cluster.Key]guard.Sample{}
		for key, bytes := range w.Ledger.Guard.Alarms[0].Usage {
			samples[key] = guard.Sample{At: noon, Bytes: bytes + 1<<30}
		}
		w.Ledger.Guard.Observe(noon.Add(-time.Minute), w.Nodes, watched, w.Pods, samples)
		w.Ledger.Guard.Observe(noon, w.Nodes, watched, w.Pods, samples)
		p := Begin(noon, w, b)
		p.Learn()
		c.report(p, decisionOf(p.Decisions(), "a-0"))
		w.Ledger.Guard.Observe(noon.Add(2*time.Second), w.Nodes, watched, w.Pods, samples)
		if len(w.Ledger.Guard.Alarms) != 1 || !w.Ledger.Guard.Alarms[0].Waits {
			t.Fatalf("%s: %+v, want that the node waits", name, w.Ledger.Guard.Alarms)
		}
		workload, beside := w.Pods[0].Workload(), []guard.Move{{Of: w.Pods[0].Workload()}, {Of: w.Pods[0].Workload()}}
		if may := w.Ledger.Guard.MayMove(guard.Move{Of: workload, To: "n3"}, beside); may == c.counts {
			t.Errorf("%s: it counts: %v, want %v", name, !may, c.counts)
		}
		w.Ledger.Guard.Observe(noon.Add(70*time.Second), w.Nodes, watched, w.Pods, samples)
		for _, d := range Plan(noon.Add(70*time.Second), w, b) {
			if d.Do != decision.Leave && d.Pod.Name != c.next {
				t.Errorf("%s: then %s %s", name, d.Do, d.Pod.Name)
			}
		}
	}
}

// Under --eviction-rate-limit only the first actions of a pass are allowed.
func TestPlan_nodeIsNearlyOutOfMemory_itsPodMovesBeforeOthersAreResized(t *testing.T) {
	w, b := guarded()
	size := cluster.Amounts(5000, 3<<30)
	w.Governed[2].Autoscaler.Advice[0].Estimate = cluster.Estimate{Lower: size, Target: size, Upper: size}
	w.Pods[4].Node = "n2" // so no pod of c is on the node
	w.Nodes[1].Allocatable, w.Nodes[2].Allocatable = cluster.Amounts(64000, 64<<30), cluster.Amounts(64000, 64<<30)
	var order []string
	for _, d := range Plan(noon, w, b) {
		if d.Do != decision.Leave {
			order = append(order, d.Pod.Name)
		}
	}
	if len(order) < 2 || order[0] != "a-0" {
		t.Errorf("pods change in the order %v, want a-0 before others", order)
	}
}

// Nodes that rest, and those whose pods may not move, do not take the turn of others.
func TestPlan_manyNodesAreNearlyOutOfMemory_allGetTheirTurn(t *testing.T) {
	w, b := guarded()
	own := w.Ledger.Guard.Alarms[0]
	for i := range 40 {
		other := guard.Alarm{Node: fmt.Sprintf("full-%d", i), Allocatable: own.Allocatable, Used: own.Allocatable, Excess: own.Excess, Rests: i%2 == 0}
		w.Nodes = append(w.Nodes, cluster.Node{Name: other.Node, Allocatable: cluster.Amounts(16000, 16<<30), Ready: true})
		p := *w.Pods[0]
		p.Name, p.UID, p.Node, p.LocalData = other.Node, other.Node, other.Node, true // it may not move
		w.Pods = append(w.Pods, &p)
		w.Ledger.Guard.Alarms = append(w.Ledger.Guard.Alarms, other)
	}
	w.Scales[w.Pods[0].Controller] = cluster.Scale{Known: true, Replicas: 42}
	w.Governed = cluster.Gather([]*cluster.Autoscaler{w.Governed[0].Autoscaler, w.Governed[1].Autoscaler, w.Governed[2].Autoscaler}, w.Pods, false)
	moved := false
	for pass := range 40 {
		w.Ledger.Guard.Turn = pass
		d := decisionOf(Plan(noon.Add(time.Duration(pass)*15*time.Second), w, b), "a-0")
		moved = moved || d.Do == decision.Evict && d.Reason.Code == decision.NodeNearlyFull
	}
	if !moved {
		t.Error("no pod moves in 40 passes")
	}
}

// A pod that was never measured may be the one that fills the node: nobody of a higher priority moves for it, unless it may not have a sample yet or its
// containers do not run. It does not move itself.
func TestPlan_usageOfAPodIsNotKnown_higherPriorityStays(t *testing.T) {
	const gi = 1 << 30
	var used map[string]int64
	for name, c := range map[string]struct {
		change func(unmeasured *cluster.Pod, w *World)
		want   string
	}{
		"lower priority":        {func(p *cluster.Pod, _ *World) { p.Priority = -10 }, ""},
		"the same priority":     {func(*cluster.Pod, *World) {}, "a-0"},
		"higher priority":       {func(p *cluster.Pod, _ *World) { p.Priority = 10 }, "a-0"},
		"lower than one of two": {func(p *cluster.Pod, w *World) { p.Priority, w.Pods[2].Priority = -10, -20 }, "b-0"},
		"it has just started":   {func(p *cluster.Pod, _ *World) { p.Priority, p.Started = -10, noon.Add(-time.Minute) }, "a-0"},
		"it does not run":       {func(p *cluster.Pod, _ *World) { p.Priority, p.Phase = -10, cluster.Pending }, "a-0"},
		"a pod of a DaemonSet":  {func(p *cluster.Pod, _ *World) { p.Priority, p.Controller.Kind = -10, "DaemonSet" }, "a-0"},
		"the others use little or what they request": {func(_ *cluster.Pod, w *World) {
			for i, memory := range []int64{15 * gi, 1 << 20} {
				size := cluster.Amounts(500, memory)
				w.Governed[i].Autoscaler.Advice[0].Estimate = cluster.Estimate{Lower: size, Target: size, Upper: size}
				for _, p := range w.Governed[i].Pods {
					p.Containers[0].Requests = size
				}
			}
			used = map[string]int64{"a-0": 15 * gi, "b-0": 2 << 20}
		}, ""},
	} {
		w, b := guarded()
		w.Ledger.Guard.Alarms = nil
		used = map[string]int64{"a-0": 9 * gi, "b-0": 6 * gi}
		unmeasured := w.Pods[4]
		c.change(unmeasured, &w)
		samples := map[cluster.Key]guard.Sample{}
		for _, now := range []time.Time{noon.Add(-2 * time.Minute), noon} {
			for _, p := range w.Pods {
				samples[p.Key] = guard.Sample{At: now.Add(-30 * time.Second), Bytes: used[p.Name]}
			}
			delete(samples, unmeasured.Key)
			w.Nodes[0].Capacity.Memory = 20 * gi
			w.Ledger.Guard.Observe(now, w.Nodes, map[string]bool{"n1": true}, w.Pods, samples)
		}
		if len(w.Ledger.Guard.Alarms) != 1 {
			t.Fatalf("%s: %+v", name, w.Ledger.Guard.Alarms)
		}
		moved := ""
		for _, d := range Plan(noon, w, b) {
			if d.Do != decision.Leave {
				moved += d.Pod.Name
			}
		}
		if moved != c.want {
			t.Errorf("%s: %q moves, want %q", name, moved, c.want)
		}
	}
}

// The sample of the pod with the lowest priority is 61 seconds old, that of the others 30: nobody of a higher priority moves for it.
func TestPlan_sampleOfTheLowestPriorityIsAMinuteOld_higherPriorityStays(t *testing.T) {
	const gi = 1 << 30
	for name, age := range map[string]time.Duration{"fresh": 30 * time.Second, "61 seconds old": 61 * time.Second} {
		w, b := guarded()
		w.Pods[0].Priority, w.Pods[2].Priority, w.Pods[4].Priority = -10, 1000, 1000 // a-0 has the lowest
		w.Ledger.Guard.Alarms = nil
		samples := map[cluster.Key]guard.Sample{}
		used := map[string]int64{"a-0": 3 * gi, "b-0": 13 * gi, "c-0": gi}
		for _, n := range []int{0, 1} {
			now := noon.Add(time.Duration(n-1) * 2 * time.Minute)
			for _, p := range w.Pods {
				at := now.Add(-30 * time.Second)
				if p.Name == "a-0" {
					at = now.Add(-age)
				}
				samples[p.Key] = guard.Sample{At: at, Bytes: used[p.Name]}
			}
			w.Nodes[0].Capacity.Memory = 20 * gi
			w.Ledger.Guard.Observe(now, w.Nodes, map[string]bool{"n1": true}, w.Pods, samples)
		}
		if len(w.Ledger.Guard.Alarms) != 1 {
			t.Fatalf("%s: %+v", name, w.Ledger.Guard.Alarms)
		}
		moved := ""
		for _, d := range Plan(noon, w, b) {
			if d.Do != decision.Leave {
				moved += d.Pod.Name
			}
		}
		if moved != "a-0" {
			t.Errorf("%s: %q moves, want a-0 with the lowest priority", name, moved)
		}
	}
}
