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

// An OOM-killed pod that does not fit into the free room, but into the room that another pod gives to a third one, waits for neither.
func TestMake_urgentPodFitsOnlyAfterShrinks_doesNotWaitForOthers(t *testing.T) {
	urgent := notAsked("urgent", Amount{100, 100}, Amount{150, 100}, Shrink, 0)
	urgent.Urgent = true
	p := Make(Request{Pods: []Pod{
		notAsked("first", Amount{100, 100}, Amount{200, 100}, Shrink, 1), urgent, shrinks("small", Amount{200, 100}, Amount{100, 100}),
	}})
	if got, waits := waitsFor(p)["urgent"]; waits && got != "" {
		t.Errorf("the urgent pod waits for %s: %s", got, text(p))
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
	if got := p.ReservedFor(0, Amount{40, 0}); got != "" {
		t.Fatalf("the free room is reserved for %s: %s", got, text(p))
	}
	p.Give(Pod{Name: "second"}, Amount{40, 0})
	if got := p.ReservedFor(0, Amount{40, 0}); got != "first" {
		t.Errorf("the room for another pod is reserved for %q, want the first", got)
	}
	if got := p.ReservedFor(2, Amount{40, 0}); got != "" {
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
