// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fragments tells how the free room of pools is divided among their nodes: what no usual pod can use, the fewest moves that free a node or
// make room for a pod, and which nodes a cluster autoscaler could remove. Moves are made one after the other: a pod is evicted when the one before
// it is ready on its new node. Nothing is carried out.
package fragments

import (
	"maps"
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/room"
)

// An Input is the state of a cluster at one moment, and what is asked.
type Input struct {
	Nodes   []cluster.Node
	Pools   []string         // of each node
	Names   []string         // the pools that are measured
	Rooms   *placement.Rooms // pods have all labels in their Marks
	Groups  map[cluster.Workload]*disruption.Group
	Budgets map[string][]cluster.DisruptionBudget // by namespace; nil: not known
	Avoided map[string][]cluster.Selector         // pods that anti-affinities of others keep away, by namespace; "": of all namespaces
	Sizes   map[cluster.Key]room.Amount           // of replacements that a VPA sizes; they are not smaller than the pods
	Waiting bool                                  // a pod without a node could take what moves on other nodes free, so only pods of the node itself move
	Node    string                                // plans are for this node, also if it is cordoned; "" for all
	For     room.Amount                           // make room for a pod of this size; zero: for none
}

// A Pool is the free room of a pool of nodes. The types below are also the JSON of the report.
type Pool struct {
	Name     string      `json:"name"`
	Counted  int         `json:"countedNodes"`           // whose free room counts: they take pods, and no pod has an overhead that is not known
	Free     room.Amount `json:"free"`                   // of these nodes
	Stranded room.Amount `json:"stranded"`               // what remains free when nodes are filled with pods of usual sizes
	Empty    Plan        `json:"freeNode"`               // the fewest moves that free a node
	Room     *Plan       `json:"makeRoom,omitempty"`     // the fewest moves that make room for Input.For; nil if that is zero
	Nodes    []Node      `json:"clusterAutoscalerNodes"` // whether a cluster autoscaler could remove them
}

// A Plan is moves in their order.
type Plan struct {
	Proven bool   `json:"proven"` // there are no fewer moves or, if none are found, none at all; otherwise the search has ended at its limit
	Node   string `json:"node"`   // that is freed, or gets the room; "" if no moves are found
	Moves  []Move `json:"moves,omitempty"`
	Unused string `json:"-"` // a node without pods, which a replacement may start on; "" if there is none
}

// A Move is the eviction of a pod whose replacement fits on another node.
type Move struct {
	Pod  string       `json:"pod"`
	From string       `json:"from"`
	To   string       `json:"to"`
	Size room.Amount  `json:"size"`
	Of   *cluster.Pod `json:"-"`
}

// A Node is what keeps a cluster autoscaler from removing a node. It could remove one without holds.
type Node struct {
	Name      string  `json:"name"`
	Pods      int     `json:"pods"`           // without those of DaemonSets and static pods
	Requested float64 `json:"requestedShare"` // of the resource of which more is requested; at most 1, also if the node reports nothing allocatable
	Holds     []Hold  `json:"heldBy"`
}

// A Hold is why a cluster autoscaler does not evict pods, or does not remove a node.
type Hold struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
	Pods    int    `json:"pods"`          // with this cause; 0: it is the node itself
	Pod     string `json:"pod,omitempty"` // one of them
}

// The causes of holds. The name of an annotation or a PodDisruptionBudget may follow the message.
var (
	protected      = Hold{Cause: "Protected", Message: "annotation "}
	nodeProtected  = Hold{Cause: "NodeProtected", Message: "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled: true"}
	noController   = Hold{Cause: "NoController", Message: "no controller"}
	localStorage   = Hold{Cause: "LocalStorage", Message: "local storage"}
	constraints    = Hold{Cause: "Constraints", Message: "affinity (also of other pods), spread constraint, volume, host port or device: not known which nodes accept it"}
	budgetsUnknown = Hold{Cause: "BudgetsUnknown", Message: "not known whether PodDisruptionBudgets allow an eviction"}
	noEviction     = Hold{Cause: "NoEviction", Message: "no eviction is allowed now by PodDisruptionBudget "}
	systemPod      = Hold{Cause: "SystemPod", Message: "in kube-system without a PodDisruptionBudget"}
	noRoom         = Hold{Cause: "NoRoom", Message: "no room found on other nodes that run pods"}
	wellUsed       = Hold{Cause: "WellUsed", Message: "by default, nodes with 50 % requested or more are kept"}
)

// Measure returns pools. The rooms are known.
func Measure(in *Input) []Pool {
	s := newSearch(in)
	return cluster.Each(in.Names, func(name *string) Pool { return s.measure(*name) })
}

func (s *search) measure(name string) Pool {
	var nodes []int
	count := map[room.Amount]int{} // pods by size; pods without requests fit anywhere and do not count
	pods := 0
	for i := range s.sites {
		if s.Pools[i] != name {
			continue
		}
		nodes = append(nodes, i)
		for _, it := range s.sites[i].own {
			if it.size != (room.Amount{}) {
				count[it.size]++
				pods++
			}
		}
	}
	out := Pool{Name: name, Empty: s.fewest(nodes, room.Amount{})}
	if s.For != (room.Amount{}) {
		out.Room = new(s.fewest(nodes, s.For))
	}
	sizes := len(count)
	maps.DeleteFunc(count, func(_ room.Amount, n int) bool { return n*sizes < pods }) // usual: as many pods as sizes have on average
	usual := slices.SortedFunc(maps.Keys(count), func(a, b room.Amount) int { return larger(a, b, s.sites[nodes[0]].Node) })
	for _, i := range nodes {
		out.Nodes = append(out.Nodes, s.judge(i))
		at := &s.sites[i]
		if !at.Node.TakesPods() || at.Unknown {
			continue
		}
		out.Counted++
		free := room.Amount{CPU: max(at.free.CPU, 0), Memory: max(at.free.Memory, 0)}
		out.Free = out.Free.Add(free)
		slots := at.slots
		for _, size := range usual {
			for ; slots > 0 && free.Holds(size); slots-- {
				free = free.Sub(size)
			}
		}
		out.Stranded = out.Stranded.Add(free)
	}
	return out
}

// judge returns what keeps a cluster autoscaler from removing a node.
func (s *search) judge(i int) Node {
	at := &s.sites[i]
	out := Node{at.Node.Name, len(at.own), min(share(room.Of(at.Node.Allocatable).Sub(at.Open), at.Node), 1), at.holds}
	s.begin(i, room.Amount{}, tryVisits)
	s.items = at.own
	for _, it := range s.items { // the plans for the pool are made
		it.next = it.size
	}
	switch {
	case len(out.Holds) > 0:
	case !s.solve(0, 0, math.MaxInt):
		out.Holds = []Hold{noRoom}
	case out.Requested >= 0.5: // the default of --scale-down-utilization-threshold
		out.Holds = []Hold{wellUsed}
	}
	return out
}
