// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

const gi = 1 << 30

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// A world is a cluster. Workloads get as many replicas as they need.
type world struct {
	Input
	pods        []*cluster.Pod
	selectors   []cluster.NodeSelector
	tolerations []cluster.Tolerations
	scales      map[cluster.Workload]cluster.Scale
}

func input() *world {
	return &world{Input: Input{Budgets: map[string][]cluster.DisruptionBudget{}}, scales: map[cluster.Workload]cluster.Scale{}}
}

// node adds a node of cores and GiB to the pool worker.
func (in *world) node(name string, cores, memory int64) *cluster.Node {
	size := cluster.Amounts(1000*cores, memory*gi)
	in.Nodes = append(in.Nodes, cluster.Node{Name: name, Allocatable: size, Capacity: size, Ready: true, Labels: []string{"kubernetes.io/hostname=" + name}})
	in.Pools = append(in.Pools, "worker")
	return &in.Nodes[len(in.Nodes)-1]
}

// podOf adds a ready pod of a workload, of millicores and GiB.
func (in *world) podOf(name, node string, cpu, memory int64) *cluster.Pod {
	workload, _, _ := strings.Cut(name, "-")
	w := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: workload}
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: w, Top: w, Node: node, Phase: cluster.Running, Ready: true, ReadySince: now.Add(-time.Hour),
		Created: now.Add(-time.Hour), Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, memory*gi)}},
		Marks: &cluster.Marks{Labels: "app=" + workload},
	}
	in.pods = append(in.pods, p)
	return p
}

// pod is podOf, with the replicas that the workload has then, and at least 2.
func (in *world) pod(name, node string, cpu, memory int64) *cluster.Pod {
	p := in.podOf(name, node, cpu, memory)
	of := int32(0)
	for _, other := range in.pods {
		if other.Controller == p.Controller {
			of++
		}
	}
	in.scales[p.Controller] = cluster.Scale{Known: true, Replicas: max(of, 2)}
	return p
}

// settle gives workloads with one pod a second one outside of the pools' nodes, so that they have enough replicas.
func (in *world) settle() *Input {
	count := map[cluster.Workload]int{}
	for _, p := range in.pods {
		count[p.Controller]++
	}
	for w, n := range count {
		if n == 1 {
			in.pod(w.Name+"-elsewhere", "gone", 10, 0)
		}
	}
	slices.SortFunc(in.pods, func(a, b *cluster.Pod) int { return a.Compare(b.Key) })
	return in.pack()
}

func (in *world) pack() *Input {
	counter := &disruption.Counter{Now: now, Limits: &disruption.Limits{MinReplicas: 2, Tolerance: 0.5}, Need: &need.Rules{}, Scales: in.scales, Ledger: ledger.New()}
	in.Names = []string{"worker"}
	in.Groups = counter.Groups(&cluster.Autoscaler{}, in.pods)
	in.Rooms = placement.RoomsOf(in.Nodes, in.pods, placement.SizesOf(in.Nodes, in.selectors, in.tolerations, nil))
	return &in.Input
}

func text(p *Plan) string {
	if p == nil {
		return "not asked"
	}
	parts := []string{fmt.Sprintf("found=%t proven=%t %s", p.Node != "", p.Proven, p.Node)}
	for _, m := range p.Moves {
		parts = append(parts, fmt.Sprintf("%s %s→%s", strings.TrimPrefix(m.Pod, "shop/"), m.From, m.To))
	}
	return strings.Join(parts, ", ")
}

// three is three nodes with 8 cores, of which n3 has the fewest pods.
func three() *world {
	in := input()
	for _, n := range []string{"n1", "n2", "n3"} {
		in.node(n, 8, 32)
	}
	in.pod("web-1", "n1", 3000, 8)
	in.pod("web-2", "n1", 2000, 8)
	in.pod("api-1", "n2", 3000, 8)
	in.pod("api-2", "n2", 2000, 8)
	in.pod("cart-1", "n3", 3000, 4)
	return in
}

func TestMeasure_podsFitElsewhere_nodeWithFewestPodsIsFreed(t *testing.T) {
	p := Measure(three().settle())[0]
	if got := text(&p.Empty); got != "found=true proven=true n3, cart-1 n3→n1" {
		t.Error(got)
	}
	if p.Free != (room.Amount{CPU: 11000, Memory: 60 * gi}) || p.Room != nil {
		t.Errorf("%+v", p)
	}
}

func TestMeasure_shape_fewestMovesMakeRoom(t *testing.T) {
	in := three()
	for size, want := range map[room.Amount]string{
		{CPU: 5000, Memory: 8 * gi}:  "found=true proven=true n3",
		{CPU: 6000, Memory: 8 * gi}:  "found=true proven=true n1, web-1 n1→n2",
		{CPU: 8000, Memory: 8 * gi}:  "found=true proven=true n3, cart-1 n3→n1",
		{CPU: 8001, Memory: 8 * gi}:  "found=false proven=true ",
		{CPU: 6000, Memory: 33 * gi}: "found=false proven=true ",
	} {
		in.For = size
		if got := text(Measure(in.settle())[0].Room); got != want {
			t.Errorf("%v: %s, want %s", size, got, want)
		}
	}
}
