// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

func TestTable_fragments_plansAndHoldsAreInWords(t *testing.T) {
	r := example()
	r.For = room.Amount{CPU: 8000, Memory: 32 << 30}
	move := fragments.Move{Pod: "shop/ca\x1brt", From: "n1", To: "n2", Size: room.Amount{CPU: 500, Memory: 1 << 30}}
	r.Fragments = []fragments.Pool{{
		Name: "wor\x1bker", Counted: 1, Free: room.Amount{CPU: 12_000, Memory: 30 << 30}, Empty: fragments.Plan{Node: "n1", Moves: []fragments.Move{move}}, Room: new(fragments.Plan),
		Nodes: []fragments.Node{{Name: "n1", Pods: 1, Requested: 0.4}, {Name: "n2", Holds: []fragments.Hold{{Message: "local storage", Pods: 2, Pod: "shop/db"}, {Message: "full"}}}},
	}}
	out := written(t, "table", r, terminal.Printer{})
	for _, want := range []string{
		"ROOM FOR 8 cores, 32 GiB", "at most 1 move: n1", "no moves found", "wor?ker, to free n1: cordon n1; shop/ca?rt (0.5 cores, 1 GiB) from n1 to n2.",
		"30 GiB on 1 of 2 nodes", "could remove it", "keeps it: local storage (2 pods, such as shop/db); full",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a name reaches the terminal as a control sequence")
	}
	var d struct{ Fragments []struct{ Free amounts } }
	if err := json.Unmarshal([]byte(written(t, "json", r, terminal.Printer{})), &d); err != nil || len(d.Fragments) != 1 || d.Fragments[0].Free != (amounts{12, 30 << 30}) {
		t.Errorf("%v, %+v", err, d.Fragments)
	}
	r.Fragments[0].Room = nil
	if out := written(t, "table", r, terminal.Printer{}); strings.Contains(out, "ROOM FOR") {
		t.Errorf("the report names a size that was not asked for:\n%s", out)
	}
}

// The scheduler could return a pod of a third node to where it was, and the pod for which it moves would have no room there.
func TestTable_podOfAThirdNodeMoves_thatNodeIsCordonedMeanwhile(t *testing.T) {
	r := example()
	moves := []fragments.Move{{Pod: "shop/a", From: "n3", To: "n2", Size: room.Amount{CPU: 1000}}, {Pod: "shop/b", From: "n1", To: "n3", Size: room.Amount{CPU: 1000}}}
	r.Fragments = []fragments.Pool{{Name: "worker", Empty: fragments.Plan{Node: "n1", Moves: moves, Proven: true}}}
	const want = "to free n1: cordon n1; cordon n3 until the next pod has left it; shop/a (1 core, 0 GiB) from n3 to n2; shop/b (1 core, 0 GiB) from n1 to n3."
	if out := written(t, "table", r, terminal.Printer{}); !strings.Contains(out, want) {
		t.Errorf("%q is missing in\n%s", want, out)
	}
}
