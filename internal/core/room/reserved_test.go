// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import "testing"

// waitsFor returns the names of the pods with a Wait step, and of the pods that they wait for.
func waitsFor(p Plan) map[string]string {
	out := map[string]string{}
	for _, s := range p.Steps {
		if s.Do == Wait {
			out[s.Name] = s.For
		}
	}
	return out
}

func notAsked(name string, holds, target Amount, allowed Allowed, priority int32) Pod {
	p := needs(name, holds, target, allowed)
	p.Asked, p.Divisible, p.Priority = false, false, priority
	return p
}

func TestMake_podsReserveDifferentResources_waitNamesThePodWithTheLackingOne(t *testing.T) {
	p := Make(Request{Free: Amount{100, 100}, Pods: []Pod{
		notAsked("cpu", Amount{100, 100}, Amount{200, 100}, Off, 3),
		notAsked("memory", Amount{100, 100}, Amount{100, 200}, Off, 2),
		notAsked("waits", Amount{100, 100}, Amount{100, 150}, Off, 1),
	}})
	if got := waitsFor(p); got["waits"] != "memory" {
		t.Errorf("waits for %q, want the pod that gets the memory: %s", got["waits"], text(p))
	}
}

// An OOM-killed pod that does not fit into the free room, but into the room that another pod gives to a third one, waits for the third one only
// if that has a higher priority.
func TestMake_urgentPodFitsOnlyAfterShrinks_waitsForHigherPrioritiesOnly(t *testing.T) {
	for priority, want := range map[int32]string{0: "", 1: "first"} {
		urgent := notAsked("urgent", Amount{100, 100}, Amount{150, 100}, Shrink, 0)
		urgent.Urgent, urgent.Since = true, 1
		first := notAsked("first", Amount{100, 100}, Amount{200, 100}, Shrink, priority)
		p := Make(Request{Pods: []Pod{first, urgent, shrinks("small", Amount{200, 100}, Amount{100, 100})}})
		if got := waitsFor(p)["urgent"]; got != want {
			t.Errorf("priority %d: the urgent pod waits for %q, want %q: %s", priority, got, want, text(p))
		}
	}
}

// An OOM-killed pod gets the free room before pods of its priority that have waited longer, and after those of a higher priority. One that has
// left the room to others for long enough comes before all.
func TestMake_urgentAndOverduePods_priorityComesFirst(t *testing.T) {
	grows := func(p Plan) string {
		for _, s := range p.Steps {
			if s.Do == GrowPod {
				return s.Name
			}
		}
		return ""
	}
	old, killed := notAsked("old", Amount{100, 100}, Amount{150, 100}, Off, 5), notAsked("killed", Amount{100, 100}, Amount{150, 100}, Off, 5)
	killed.Since, killed.Urgent = 9, true
	for _, c := range []struct {
		priority int32
		overdue  bool
		want     string
	}{{5, false, "killed"}, {6, false, "killed"}, {4, false, "old"}, {4, true, "killed"}} {
		killed.Priority, killed.Overdue = c.priority, c.overdue
		p := Make(Request{Free: Amount{50, 0}, Pods: []Pod{old, killed}})
		if got := grows(p); got != c.want {
			t.Errorf("priority %d, overdue %t: %q gets the room, want %q: %s", c.priority, c.overdue, got, c.want, text(p))
		}
	}
}

// A pod without a reservation takes a part of the free room. What is left is enough for the pod with the reservation, and for no third one.
func TestMake_growthWithoutAReservation_takesFreeRoomToo(t *testing.T) {
	first := notAsked("first", Amount{100, 100}, Amount{150, 100}, Off, 2)
	old := notAsked("old", Amount{100, 100}, Amount{140, 100}, Off, 1)
	old.Reserves = false
	p := Make(Request{Free: Amount{100, 0}, Pods: []Pod{first, old, notAsked("last", Amount{100, 100}, Amount{140, 100}, Off, 0)}})
	if got := waitsFor(p); got["last"] != "first" {
		t.Errorf("the last pod waits for %q, want the first: %s", got["last"], text(p))
	}
}

func TestPlan_Give_roomIsGivenOnce(t *testing.T) {
	p := Make(Request{Free: Amount{100, 0}, Pods: []Pod{notAsked("first", Amount{100, 100}, Amount{150, 100}, Off, 1), notAsked("big", Amount{100, 100}, Amount{900, 100}, Off, 0)}})
	if got := p.ReservedFor(&Pod{}, Amount{40, 0}); got != "" {
		t.Fatalf("the free room is reserved for %s: %s", got, text(p))
	}
	p.Give(Pod{Name: "second"}, Amount{40, 0})
	if got := p.ReservedFor(&Pod{}, Amount{40, 0}); got != "first" {
		t.Errorf("the room for another pod is reserved for %q, want the first", got)
	}
	if got := p.ReservedFor(&Pod{Priority: 2}, Amount{40, 0}); got != "" {
		t.Errorf("a pod with a higher priority waits for %s", got)
	}
}

// The first pod may not shrink others. Another one does, and leaves enough room for the first.
func TestMake_shrinkForALaterPodLeavesRoom_firstPodGrowsToo(t *testing.T) {
	first := notAsked("first", Amount{100, 100}, Amount{110, 100}, Off, 0)
	later := notAsked("later", Amount{100, 100}, Amount{120, 100}, Shrink, 0)
	later.Since = 1
	p := Make(Request{Pods: []Pod{first, later, shrinks("small", Amount{200, 100}, Amount{100, 100})}})
	if got := waitsFor(p); len(got) > 0 {
		t.Errorf("pods wait: %s", text(p))
	}
}

// No pod may shrink for the waiting pod with the higher priority, and one shrinks for the pod with the lower priority. The resources that it frees
// are enough for the first, which is served before the second.
func TestMake_shrinksForALowerPriority_higherPriorityThatWaitsIsServedFirst(t *testing.T) {
	p := Make(Request{Node: "n", Free: Amount{CPU: 1, Memory: 3}, Pods: []Pod{
		{ID: "high", Name: "high", Priority: 10, Holds: Amount{CPU: 6, Memory: 2}, Target: Amount{CPU: 8, Memory: 3}, Needs: true, Reserves: true},
		{ID: "low", Name: "low", Priority: 5, Target: Amount{Memory: 12}, Needs: true, Reserves: true, Divisible: true, Allowed: Split},
		{ID: "shrinks", Name: "shrinks", Holds: Amount{CPU: 3, Memory: 4}, Target: Amount{CPU: 1}, Shrinks: true},
	}})
	want := "shrink shrinks 3/4>1/0 for low\ngrow high 6/2>8/3\ngrow in part low 0/0>0/6 lacks 0/6"
	if got := text(p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
