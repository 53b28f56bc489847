// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// text writes a plan, one step per line.
func text(p Plan) string {
	var lines []string
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s %s %d/%d>%d/%d", s.Do, s.Name, s.From.CPU, s.From.Memory, s.To.CPU, s.To.Memory)
		if s.For != "" {
			line += " for " + s.For
		}
		if s.Node != "" {
			line += " to " + s.Node
		}
		if s.Lacks != (Amount{}) {
			line += fmt.Sprintf(" lacks %d/%d", s.Lacks.CPU, s.Lacks.Memory)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func needs(name string, holds, target Amount, allowed Allowed) Pod {
	return Pod{ID: name, Name: name, Holds: holds, Target: target, Needs: true, Allowed: allowed, Divisible: true, Least: 0.1, Asked: true, Reserves: true, Visits: MaxVisits}
}

func shrinks(name string, holds, target Amount) Pod {
	return Pod{ID: name, Name: name, Holds: holds, Target: target, Shrinks: true}
}

func moves(name string, holds Amount, seconds int64) Pod {
	return Pod{ID: name, Name: name, Holds: holds, Move: &Candidate{Size: holds, Spots: []int{0}, Ready: 3, Wanted: 3, StartSeconds: seconds}}
}

func TestMake_steps(t *testing.T) {
	elsewhere := []Spot{{"n2", Amount{1000, 1000}}}
	late := needs("late", Amount{100, 100}, Amount{200, 100}, Shrink)
	late.Since = 1
	important := needs("important", Amount{100, 100}, Amount{200, 100}, Shrink)
	important.Priority, important.Since = 10, 2
	first := needs("first", Amount{100, 100}, Amount{200, 100}, Shrink)
	notAsked := needs("b", Amount{100, 100}, Amount{200, 100}, Move)
	notAsked.Asked = false
	next := needs("next", Amount{100, 100}, Amount{150, 100}, Split)
	next.Since = 3
	precious := moves("precious", Amount{100, 0}, 1)
	precious.Priority = 1
	self := needs("b", Amount{100, 100}, Amount{200, 100}, Move)
	self.Move = &Candidate{Size: Amount{200, 100}, Spots: []int{0}, Ready: 3, Wanted: 3, StartSeconds: 1}
	whole := needs("b", Amount{100, 100}, Amount{200, 100}, Split)
	whole.Divisible = false
	planned := shrinks("a", Amount{500, 100}, Amount{400, 100})
	planned.Planned = true
	tooBig := moves("a", Amount{100, 0}, 1)
	tooBig.Move.Size = Amount{2000, 0}
	for name, tc := range map[string]struct {
		free    Amount
		pods    []Pod
		leaving bool
		want    string
	}{
		"enough room": {Amount{100, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Off), shrinks("a", Amount{500, 100}, Amount{100, 100})}, false,
			"grow b 100/100>200/100"},
		"no step is allowed": {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Off), shrinks("a", Amount{500, 100}, Amount{100, 100})}, false,
			"wait b 100/100>200/100 lacks 50/0"},
		"the largest surplus comes first, and only what is needed shrinks": {Amount{0, 0}, []Pod{
			needs("b", Amount{100, 100}, Amount{200, 100}, Shrink),
			shrinks("small", Amount{150, 100}, Amount{100, 100}), shrinks("large", Amount{500, 100}, Amount{300, 100}), shrinks("middle", Amount{200, 100}, Amount{50, 100}),
		}, false, "shrink large 500/100>300/100 for b\ngrow b 100/100>200/100"},
		"a pod that was chosen for CPU is dropped if another one is enough for both": {Amount{0, 0}, []Pod{
			needs("b", Amount{100, 100}, Amount{200, 200}, Shrink),
			shrinks("cpu", Amount{500, 100}, Amount{300, 100}), shrinks("both", Amount{250, 300}, Amount{100, 100}),
		}, false, "shrink both 250/300>100/100 for b\ngrow b 100/100>200/200"},
		"shrinks that are not enough are not made for nothing": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Shrink), shrinks("a", Amount{150, 100}, Amount{100, 100})}, false,
			"wait b 100/100>200/100 lacks 100/0"},
		"growth by a part": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Split), shrinks("a", Amount{150, 100}, Amount{100, 100})}, false,
			"shrink a 150/100>100/100 for b\ngrow in part b 100/100>150/100 lacks 50/0"},
		"a part that is not worth a resize":     {Amount{9, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Split)}, false, "wait b 100/100>200/100 lacks 91/0"},
		"a pod that cannot be divided":          {Amount{50, 0}, []Pod{whole}, false, "wait b 100/100>200/100 lacks 50/0"},
		"growth by a part never shrinks a pod":  {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 50}, Split)}, false, "grow in part b 100/100>150/100 lacks 50/0"},
		"a node with less than no room":         {Amount{-50, -50}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Split), shrinks("a", Amount{200, 100}, Amount{100, 100})}, false, "shrink a 200/100>100/100 for b\ngrow in part b 100/100>150/100 lacks 50/0"},
		"priority, then the order of the needs": {Amount{250, 0}, []Pod{late, important, first}, false, "grow important 100/100>200/100\ngrow first 100/100>200/100\nwait late 100/100>200/100 lacks 50/0"},
		"room that is left of a shrink for a later pod": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Off), needs("c", Amount{100, 100}, Amount{200, 100}, Shrink), shrinks("a", Amount{500, 100}, Amount{200, 100})}, false,
			"shrink a 500/100>200/100 for c\ngrow c 100/100>200/100\ngrow b 100/100>200/100"},
		"planned shrinks come first": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Off), planned}, false, "shrink a 500/100>400/100\ngrow b 100/100>200/100"},
		"a pod that does not shrink in every resource stays": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Shrink), shrinks("a", Amount{500, 100}, Amount{100, 101})}, false,
			"wait b 100/100>200/100 lacks 100/0"},
		"the cheapest set of moves": {Amount{0, 0}, []Pod{
			needs("b", Amount{100, 100}, Amount{300, 100}, Move), moves("slow", Amount{200, 100}, 100), moves("fast1", Amount{100, 100}, 10), moves("fast2", Amount{100, 100}, 10), moves("small", Amount{50, 0}, 1),
		}, false, "move fast1 100/100>100/100 for b to n2\nmove fast2 100/100>100/100 for b to n2\ngrow b 100/100>300/100"},
		"shrinks come before moves": {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{300, 100}, Move), shrinks("a", Amount{200, 0}, Amount{100, 0}), moves("c", Amount{100, 0}, 10), moves("d", Amount{200, 0}, 11)}, false,
			"shrink a 200/0>100/0 for b\nmove c 100/0>100/0 for b to n2\ngrow b 100/100>300/100"},
		"the pod itself moves if that is cheaper":    {Amount{0, 0}, []Pod{self, moves("c", Amount{100, 0}, 10)}, false, "move b 100/100>200/100 to n2"},
		"a pod with a higher priority does not move": {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Move), precious}, false, "grow in part b 100/100>150/100 lacks 50/0"},
		"a replacement that fits nowhere":            {Amount{0, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Move), tooBig}, false, "wait b 100/100>200/100 lacks 100/0"},
		"nothing moves while a pod leaves":           {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Move), moves("c", Amount{100, 0}, 10)}, true, "wait b 100/100>200/100 lacks 50/0"},
		"nothing moves before the kubelet is asked":  {Amount{50, 0}, []Pod{notAsked, moves("c", Amount{100, 0}, 10)}, false, "wait b 100/100>200/100 lacks 50/0"},
		"the room of a pod for which others will move is kept": {Amount{50, 0}, []Pod{notAsked, moves("c", Amount{100, 0}, 10), next}, false,
			"wait b 100/100>200/100 lacks 50/0\nwait next 100/100>150/100 lacks 50/0"},
		"the room of a pod that may move others is kept while a pod leaves": {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Move), next}, true,
			"wait b 100/100>200/100 lacks 50/0\nwait next 100/100>150/100 lacks 50/0"},
		"the room of a pod that only waits is not kept": {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Off), next}, false,
			"grow next 100/100>150/100\nwait b 100/100>200/100 lacks 100/0"},
		"growth by a part if the moves are not enough": {Amount{50, 0}, []Pod{needs("b", Amount{100, 100}, Amount{2000, 100}, Move), moves("c", Amount{100, 0}, 10)}, false, "grow in part b 100/100>150/100 lacks 1850/0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Make(Request{Node: "n1", Free: tc.free, Pods: tc.pods, Others: slices.Clone(elsewhere), Leaving: tc.leaving})
			if got := text(p); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

func TestCost_eachCause_increasesTheCost(t *testing.T) {
	base := Pod{Move: &Candidate{Ready: 4, Wanted: 4, StartSeconds: 10}}
	for name, change := range map[string]func(*Pod){
		"higher priority":     func(p *Pod) { p.Priority = 1000 },
		"fewer replicas":      func(p *Pod) { p.Move.Ready, p.Move.Wanted = 2, 2 },
		"a replica not ready": func(p *Pod) { p.Move.Ready = 3 },
		"a slower start":      func(p *Pod) { p.Move.StartSeconds = 60 },
	} {
		dearer := base
		c := *base.Move
		dearer.Move = &c
		change(&dearer)
		if CostOf(&dearer) <= CostOf(&base) {
			t.Errorf("%s: %d, want more than %d", name, CostOf(&dearer), CostOf(&base))
		}
	}
	if c := CostOf(&Pod{Priority: -5, Move: &Candidate{}}); c < 1 {
		t.Errorf("the least cost is %d", c)
	}
}

func TestParseAllowed_names_areTheFlagsValues(t *testing.T) {
	for _, a := range []Allowed{Off, Shrink, Split, Move} {
		if got, ok := ParseAllowed(a.String()); !ok || got != a {
			t.Errorf("%s: %v %t", a, got, ok)
		}
	}
	if _, ok := ParseAllowed("all"); ok {
		t.Error("an unknown value was accepted")
	}
}

// The work of the greedy search per candidate and move must not grow with the number of candidates, and the exact search must end.
func TestMake_workOfSearch_isBounded(t *testing.T) {
	visits := func(n int) int {
		r := Request{Node: "n1", Pods: []Pod{needs("b", Amount{100, 100}, Amount{1000, 1000}, Move)}, Others: []Spot{{"n2", Amount{1 << 40, 1 << 40}}}}
		for i := range n {
			r.Pods = append(r.Pods, moves(fmt.Sprintf("p%04d", i), Amount{int64(100 + i%7), int64(90 + i%11)}, int64(1+i%13)))
		}
		m := newMaker(r)
		for _, p := range m.needing() {
			m.serve(p)
		}
		return m.visits
	}
	if n := visits(exactUpTo); n > MaxVisits+100*exactUpTo {
		t.Errorf("the exact search looked at %d sets", n)
	}
	small, large := visits(100), visits(400)
	if per := float64(large) / 400; per > 1.5*float64(small)/100 {
		t.Errorf("%d candidates: %d visits; %d candidates: %d visits", 100, small, 400, large)
	}
}

// The caller limits the search for each pod. A pod without a search waits, and one with a short search gets the best moves that it finds.
func TestMake_searchIsLimited_podWaitsOrMovesAreNotTheCheapest(t *testing.T) {
	for visits, want := range map[int]Kind{0: Wait, 100: Wait, 300: MovePod, MaxVisits: MovePod} {
		need := needs("b", Amount{100, 100}, Amount{1000, 1000}, Move)
		need.Visits, need.Divisible = visits, false
		r := Request{Node: "n1", Pods: []Pod{need}, Others: []Spot{{"n2", Amount{1 << 40, 1 << 40}}}}
		for i := range exactUpTo {
			r.Pods = append(r.Pods, moves(fmt.Sprintf("p%04d", i), Amount{int64(100 + i%7), int64(90 + i%11)}, int64(1+i%13)))
		}
		p := Make(r)
		if got := p.Steps[0].Do; got != want || p.Visits > visits+exactUpTo {
			t.Errorf("limit %d: first step %s after %d sets, want %s", visits, got, p.Visits, want)
		}
	}
}

// Two nodes have the same free room. One of the pods may only run on the first one, so the other one has to take the second.
func TestMake_nodesWithTheSameRoomAcceptDifferentPods_bothPodsMove(t *testing.T) {
	anywhere, bound := moves("anywhere", Amount{50, 0}, 1), moves("bound", Amount{50, 0}, 2)
	anywhere.Move.Spots = []int{0, 1}
	p := Make(Request{
		Pods:   []Pod{needs("b", Amount{100, 100}, Amount{200, 100}, Move), anywhere, bound},
		Others: []Spot{{"n1", Amount{60, 60}}, {"n2", Amount{60, 60}}},
	})
	want := "move anywhere 50/0>50/0 for b to n2\nmove bound 50/0>50/0 for b to n1\ngrow b 100/100>200/100"
	if got := text(p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
