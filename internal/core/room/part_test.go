// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import "testing"

// A part for the pod that waits longer would take the room with which the other pod is complete.
func TestMake_anotherPodWouldBeComplete_partComesAfterIt(t *testing.T) {
	large := Pod{ID: "a", Name: "a", Holds: Amount{CPU: 1000}, Target: Amount{CPU: 3000}, Needs: true, Divisible: true, Allowed: Split, Since: 1, Least: 0.1}
	small := Pod{ID: "b", Name: "b", Holds: Amount{CPU: 1000}, Target: Amount{CPU: 1600}, Needs: true, Divisible: true, Allowed: Split, Since: 2, Least: 0.1}
	sizes := func(p Plan) map[string]int64 {
		out := map[string]int64{}
		for _, s := range p.Steps {
			if s.Do == GrowPod || s.Do == GrowPart {
				out[s.ID] = s.To.CPU
			}
		}
		return out
	}
	if got := sizes(Make(Request{Free: Amount{CPU: 1000}, Pods: []Pod{large, small}})); got["a"] != 1400 || got["b"] != 1600 {
		t.Errorf("sizes %v, want b complete with 1600, and a with the rest, 1400", got)
	}
	large.Priority = 1
	if got := sizes(Make(Request{Free: Amount{CPU: 1000}, Pods: []Pod{large, small}})); got["a"] != 2000 || got["b"] != 0 {
		t.Errorf("with a higher priority: sizes %v, want a with all room, 2000", got)
	}
}
