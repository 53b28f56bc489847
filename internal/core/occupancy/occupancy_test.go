// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package occupancy

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// podOf returns a running pod on node n with 1,000 millicores and 1 GiB.
func podOf(name string) *cluster.Pod {
	web := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"}
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: web, Node: "n", Phase: cluster.Running, Ready: true,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30)}},
	}
}

// decisionOn returns the decision on a pod with a recommendation.
func decisionOn(p *cluster.Pod, do decision.Act, cpu int64, why decision.ReasonCode) *decision.Decision {
	return &decision.Decision{
		Pod: p, Autoscaler: &cluster.Autoscaler{Mode: cluster.InPlaceOrRecreate}, Do: do, Reason: decision.Reason{Code: why},
		With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(cpu, 1<<30)}},
	}
}

// bookOf returns the room on nodes n and o with 4 cores and 8 GiB each.
func bookOf(pods ...*cluster.Pod) *Book {
	nodes := []cluster.Node{
		{Name: "n", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30)}, {Name: "o", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30)},
	}
	return &Book{
		Now: noon, MakeRoom: room.Move, DeferredFor: 5 * time.Minute, Threshold: 0.1, InPlace: true, Nodes: nodes, Pods: pods,
		Sizes: placement.SizesOf(nodes, nil, nil, nil), Ledger: ledger.New(),
	}
}

func TestBook_allowed_autoscalerAndSchedulerOverrideTheFlag(t *testing.T) {
	b := bookOf()
	for value, want := range map[string]room.Allowed{"": room.Move, "shrink": room.Shrink, "off": room.Off} {
		if got := b.Allowed(&cluster.Autoscaler{MakeRoom: value}); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	b.SchedulerPreempts = true
	if got := b.Allowed(&cluster.Autoscaler{}); got != room.Split {
		t.Errorf("%s although the scheduler preempts pods", got)
	}
}

func TestBook_needs_podsThatGrowOrWait(t *testing.T) {
	deferred := podOf("web-0")
	deferred.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: noon.Add(-time.Minute)}
	for name, c := range map[string]struct {
		d    *decision.Decision
		want bool
	}{
		"grows":                    {decisionOn(podOf("web-0"), decision.Resize, 2000, decision.BelowRange), true},
		"shrinks":                  {decisionOn(podOf("web-0"), decision.Resize, 500, decision.AboveRange), false},
		"is evicted":               {decisionOn(podOf("web-0"), decision.Evict, 2000, decision.BelowRange), false},
		"waits with the rest":      {decisionOn(podOf("web-0"), decision.Leave, 2000, decision.AwaitingRoom), true},
		"waits for room":           {decisionOn(deferred, decision.Leave, 2000, decision.ResizeWaiting), true},
		"is left for another case": {decisionOn(podOf("web-0"), decision.Leave, 2000, decision.BudgetSpent), false},
	} {
		if got := bookOf().Needs(c.d); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if d := decisionOn(deferred, decision.Leave, 2000, decision.ResizeWaiting); IncreaseOf(d) != (room.Amount{}) {
		t.Errorf("a deferred pod needs %s, want what the kubelet knows", IncreaseOf(d))
	}
}

func TestBook_occupyAndVacate_roomForNewPods(t *testing.T) {
	p := podOf("web-0")
	b := bookOf(p)
	d := decisionOn(p, decision.Resize, 2500, decision.BelowRange)
	n := b.Rooms().Nodes["n"]
	b.Vacate(p)
	b.Occupy(d)
	if n.Open.CPU != 1500 || n.Free.CPU != 3000 {
		t.Errorf("open %s, free %s", n.Open, n.Free)
	}
	for range 2 {
		b.Vacate(p)
	}
	if n.Open.CPU != 3000 {
		t.Errorf("open %s after the pod has left its room", n.Open)
	}
}

func TestBook_planReservesRoom_otherPodYields(t *testing.T) {
	first, second := podOf("web-0"), podOf("web-1")
	first.Priority = 1
	b := bookOf(first, second)
	d := decisionOn(first, decision.Resize, 3000, decision.BelowRange)
	r := b.RequestFor(b.Rooms().Nodes["n"])
	r.Pods = []room.Pod{b.NeedOf(d)}
	plan := room.Make(r)
	b.Planned(&plan)
	other := decisionOn(second, decision.Resize, 1500, decision.BelowRange)
	got, reserved := b.Reserved(other)
	if want := (decision.Reason{Code: decision.RoomReserved, Text: "shop/web-0", Until: noon.Add(5 * time.Minute)}); !reserved || got != want {
		t.Errorf("reserved %t: %+v, want %+v", reserved, got, want)
	}
	second.Priority = 2
	if _, reserved := b.Reserved(other); reserved {
		t.Error("a pod with a higher priority yields")
	}
	b.TakeFree(other)
	if open := b.Rooms().Nodes["n"].Open.CPU; open != 1500 {
		t.Errorf("%d millicores are open", open)
	}
	if r := About(decision.RoomReserved, second, "bank/db-0"); r.Text != "" || r.Elsewhere != "bank/db-0" {
		t.Errorf("a pod of another namespace is named: %+v", r)
	}
}

func TestBook_askedToGrow_isPartOfTheRequest(t *testing.T) {
	asked, shrinks := podOf("web-0"), podOf("web-1")
	asked.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(500, 1<<30)}
	shrinks.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1500, 1<<30)}
	b := bookOf(asked, shrinks, podOf("web-2"))
	r := b.RequestFor(b.Rooms().Nodes["n"])
	if len(r.Asked) != 1 || r.Asked[0].ID != "web-0" || r.Asked[0].Holds.CPU != 500 || r.Asked[0].Target.CPU != 1000 {
		t.Errorf("%+v", r.Asked)
	}
	if p := b.PodOf(shrinks); !p.Planned || p.Target.CPU != 1000 {
		t.Errorf("a pod that was asked to shrink: %+v", p)
	}
}

func TestBook_podWithAPart_waitsForTheRest(t *testing.T) {
	p := podOf("web-0")
	big := podOf("web-1")
	big.Containers[0].Requests = cluster.Amounts(2800, 1<<30)
	b := bookOf(p, big)
	d := decisionOn(p, decision.Leave, 2000, decision.Fits)
	if _, short := b.ShortOf(d); short {
		t.Error("a pod without a part is short of room")
	}
	if _, incomplete := b.Incomplete(d); incomplete {
		t.Error("a pod without a part is incomplete")
	}
	b.Ledger.Done(noon.Add(-time.Minute), ledger.Attempt{Pod: p, Do: decision.Resize, With: decisionOn(p, decision.Resize, 1000, decision.Fits).With, Part: true})
	if r, short := b.ShortOf(d); !short || r != (decision.Reason{Code: decision.AwaitingRoom, Text: "cpu=800m"}) {
		t.Errorf("short of room: %t, %+v", short, r)
	}
	if r, incomplete := b.Incomplete(d); !incomplete || r.From != 1000 || r.To != 2000 {
		t.Errorf("incomplete: %t, %+v", incomplete, r)
	}
	need := b.NeedOf(d)
	if !need.Divisible || need.Since != noon.Add(-time.Minute).Unix() || !need.Reserves || need.Allowed != room.Move {
		t.Errorf("%+v", need)
	}
	for range maxParts {
		b.Ledger.Done(noon, ledger.Attempt{Pod: p, Do: decision.Resize, Part: true})
	}
	if b.NeedOf(d).Divisible {
		t.Error("the pod grows by one more part")
	}
	d.With[0].Requests = cluster.Amounts(1100, 1<<30)
	if _, short := b.ShortOf(d); short {
		t.Error("short of room although the rest fits")
	}
}

func TestBook_podsThatCanGiveRoom_byTheirState(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*decision.Decision)
		shrink, moves bool
	}{
		"fits":          {func(*decision.Decision) {}, true, true},
		"budget spent":  {func(d *decision.Decision) { d.Reason.Code = decision.BudgetSpent }, true, false},
		"canary":        {func(d *decision.Decision) { d.Reason.Code = decision.AwaitingCanary }, false, false},
		"OOM-killed":    {func(d *decision.Decision) { d.Pod.Crash = &cluster.Crash{} }, false, false},
		"only resizes":  {func(d *decision.Decision) { d.Autoscaler.Mode = cluster.InPlace }, true, false},
		"only evicts":   {func(d *decision.Decision) { d.Autoscaler.Mode = cluster.Recreate }, false, true},
		"local data":    {func(d *decision.Decision) { d.Pod.LocalData = true }, true, false},
		"not running":   {func(d *decision.Decision) { d.Pod.Phase = cluster.Pending }, false, false},
		"boosted":       {func(d *decision.Decision) { d.Pod.Containers[0].Boosted = &cluster.Applied{} }, false, false},
		"grows":         {func(d *decision.Decision) { d.With[0].Requests = cluster.Amounts(2000, 1<<30) }, false, true},
		"itself, waits": {func(d *decision.Decision) { d.Reason.Code = decision.AwaitingRoom }, false, false},
	} {
		d := decisionOn(podOf("web-0"), decision.Leave, 500, decision.Fits)
		c.change(d)
		b := bookOf()
		if shrink, moves := b.CanShrink(d), b.CanMove(d); shrink != c.shrink || moves != c.moves {
			t.Errorf("%s: can shrink %t, can move %t", name, shrink, moves)
		}
	}
	d := decisionOn(podOf("web-0"), decision.Leave, 500, decision.Fits)
	if want := (decision.Reason{Code: decision.MakesRoom, Text: "shop/web-1", Resource: cluster.CPU, From: 1000, To: 500}); ShrinkReason(d, "shop/web-1") != want || !bookOf().GivesBack(d) {
		t.Errorf("%+v, gives back %t", ShrinkReason(d, "shop/web-1"), bookOf().GivesBack(d))
	}
}

// The room that a new pod is about to take is not given to another one, whatever the order of the pods. The replacement of an evicted pod is such a pod.
func TestBook_rooms_newPodsHaveTheirRoomFirst(t *testing.T) {
	small, large := podOf("small"), podOf("large")
	small.Node, small.Created = "", noon.Add(-time.Second)
	large.Node, large.Created, large.Containers[0].Requests = "", noon.Add(-2*time.Second), cluster.Amounts(3500, 1<<30)
	for _, pods := range [][]*cluster.Pod{{podOf("a"), small, large}, {large, small, podOf("a")}} {
		rooms := bookOf(pods...).Rooms()
		if n, o := rooms.Nodes["n"].Open.CPU, rooms.Nodes["o"].Open.CPU; n != 2000 || o != 500 {
			t.Errorf("%dm and %dm are left, want 2000m of n and 500m of o", n, o)
		}
	}
	small.Marks = &cluster.Marks{Gated: true}
	if left := bookOf(podOf("a"), small).Rooms().Nodes["n"].Open.CPU; left != 3000 {
		t.Errorf("%dm are left beside a pod with scheduling gates, want 3000m", left)
	}
	small.Marks, small.Placeholder = nil, true
	if left := bookOf(podOf("a"), small).Rooms().Nodes["n"].Open.CPU; left != 3000 {
		t.Errorf("%dm are left beside a placeholder, want 3000m", left)
	}
}
