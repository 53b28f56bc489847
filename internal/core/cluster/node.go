// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/integer"
)

// A Node is a node of the cluster.
type Node struct {
	Name        string
	Allocatable Resources
	Capacity    Resources // of the machine: the allocatable amounts and what is reserved for the system
	MaxPods     int       // allocatable pods; 0 if not known
	Ready       bool
	Cordoned    bool
	Kept        bool     // an annotation forbids the cluster autoscaler to remove it
	LowMemory   bool     // condition MemoryPressure
	Tainted     bool     // it has a taint that reserves it for some pods; temporary taints for node problems do not count
	Taints      []Taint  // those that reserve it
	Labels      []string // "key=value", sorted
	Kubelet     string   // address and port of its kubelet; "" if it is not known
	Group       string   // name of its NodeGroup, if Karpenter or the Cluster API has added it; "" if it is not known
	Kernel      string   // version of the kernel, such as 6.8.0-45-generic; "" if it is not known
}

// TakesPods reports whether new pods may run on the node. Only such nodes count as capacity.
func (n *Node) TakesPods() bool { return n.Ready && !n.Cordoned }

// A NodeSelector selects the nodes that a pod may run on: the node selector and the required node affinity of the pod. The zero value
// selects all nodes.
type NodeSelector struct {
	Labels []string   // the node selector: a node has all of these labels, each as "key=value", sorted
	Terms  []NodeTerm // the affinity: one of these terms holds; none if there is no affinity
}

// OnlyNode returns the node that is selected by its name, as by a pod of a DaemonSet; "" if others may be selected.
func (s NodeSelector) OnlyNode() string {
	if len(s.Terms) != 1 || len(s.Terms[0]) != 1 {
		return ""
	}
	if r := &s.Terms[0][0]; r.Prefix == "" && r.Op == In && len(r.Values) == 1 {
		return r.Values[0]
	}
	return ""
}

// A NodeTerm holds for a node if all of its requirements hold. Without requirements it holds for no node.
type NodeTerm []Requirement

// Matches reports whether a node is selected.
func (n *Node) Matches(s NodeSelector) bool {
	for _, label := range s.Labels {
		if _, ok := slices.BinarySearch(n.Labels, label); !ok {
			return false
		}
	}
	return len(s.Terms) == 0 || slices.ContainsFunc(s.Terms, n.meets)
}

func (n *Node) meets(t NodeTerm) bool {
	return len(t) > 0 && !slices.ContainsFunc(t, func(r Requirement) bool { return !r.holds(n.Name, n.Labels) })
}

// A Taint keeps pods that do not tolerate it off a node. Only taints with the effect NoSchedule or NoExecute count.
type Taint struct{ Key, Value, Effect string }

// A Tolerance identifies the taints that a pod tolerates: an index into the list of all Tolerations. Most pods have no tolerations.
type Tolerance uint8

// The predefined tolerances.
const (
	NoTaint     Tolerance = 0
	FirstListed Tolerance = 1   // the first of the list
	Unlisted    Tolerance = 254 // not known, because the list is full
	AnyTaint    Tolerance = 255 // all taints
)

// Tolerations are the tolerations of a pod.
type Tolerations []Toleration

// A Toleration matches taints. An empty Key matches all keys, an empty Effect all effects.
type Toleration struct {
	Key    string
	Value  string
	Exists bool // any value
	Effect string
}

// Tolerate reports whether all of the taints are tolerated.
func (ts Tolerations) Tolerate(taints []Taint) bool {
	return !slices.ContainsFunc(taints, func(taint Taint) bool { return !slices.ContainsFunc(ts, taint.isToleratedBy) })
}

func (taint Taint) isToleratedBy(t Toleration) bool {
	return (t.Effect == "" || t.Effect == taint.Effect) &&
		(t.Key == "" && t.Exists || t.Key == taint.Key && (t.Exists || t.Value == taint.Value))
}

// TolerationsOf returns the tolerations of a tolerance from a list that begins with those of FirstListed. They are not known if they are not listed, or
// newer than the list.
func TolerationsOf(all []Tolerations, t Tolerance) (ts Tolerations, known bool) {
	i := int(t) - int(FirstListed)
	switch {
	case t == AnyTaint:
		return Tolerations{{Exists: true}}, true
	case i >= len(all):
		return nil, false
	case i >= 0:
		ts = all[i]
	}
	return ts, true
}

// A Reach identifies the nodes that may take a pod: pods with the same one may run on the same nodes.
type Reach struct {
	Place     Place
	Tolerance Tolerance
}

// Reach returns which nodes may take the pod.
func (p *Pod) Reach() Reach { return Reach{p.Place, p.Tolerance} }

// SelectorOf returns the selector of a place from a list that begins with that of Selected. It is not known if it is not evaluated, or newer than
// the list.
func SelectorOf(all []NodeSelector, place Place) (s NodeSelector, known bool) {
	i := int(place) - int(Selected)
	if place == Somewhere || i >= len(all) {
		return s, false
	}
	if i >= 0 {
		s = all[i]
	}
	return s, true
}

// poolLabels are the labels of nodes that name their pool, the most specific first.
var poolLabels = [...]string{
	"karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
	"agentpool", "node.kubernetes.io/instance-type",
}

// roleLabel is the prefix of the labels that name the roles of a node.
const roleLabel = "node-role.kubernetes.io/"

// Pool returns the pool of the node according to the labels of the known cloud providers, and the label that names it. Both are "" if it
// has none of them.
func (n *Node) Pool() (name, label string) {
	for _, key := range poolLabels {
		if value := n.Label(key); value != "" {
			return value, key
		}
	}
	return "", ""
}

// Label returns the value of a label, "" if the node does not have it.
func (n *Node) Label(key string) string {
	value, exists := valueOf(n.Labels, key+"=")
	if !exists {
		return ""
	}
	return value
}

// Role returns the first role of the node by name, such as control-plane or worker, and its label. Both are "" if it has none.
func (n *Node) Role() (name, label string) {
	at, _ := slices.BinarySearch(n.Labels, roleLabel)
	if at == len(n.Labels) || !strings.HasPrefix(n.Labels[at], roleLabel) {
		return "", ""
	}
	label, _, _ = strings.Cut(n.Labels[at], "=")
	return strings.TrimPrefix(label, roleLabel), label
}

// A NewNode is a kind of node that an autoscaler of the cluster can add.
type NewNode struct {
	Size    Resources // largest allocatable amounts; an amount that is not set is not bounded
	Unsized bool      // its group does not describe it, or adds none: the node bounds no pod
	Taints  []Taint   // those that reserve it
	Labels  []string  // if its group has no nodes, sorted; nil: not known, it matches any node selector
	NodeGroup
}

// A NodeGroup is a group of nodes that an autoscaler enlarges. The zero value can grow, and it is not known by how much.
type NodeGroup struct {
	Name      string    // "NodePool/NAME" of Karpenter, or the name that the cluster autoscaler uses
	Counted   bool      // More is known
	More      int       // nodes that can still be added
	Room      Resources // capacity that can still be added; an amount that is not set is not bounded, or not known
	BackedOff bool      // the autoscaler adds no nodes for some time, because it could not add the last ones
}

// Addable returns how many nodes of a size can be added until the group is at its maximum, math.MaxInt if it is not known.
func (g *NodeGroup) Addable(size Resources) int {
	nodes := math.MaxInt
	if g.Counted {
		nodes = g.More
	}
	for _, res := range All {
		if room, bounded := g.Room.Get(res); bounded {
			nodes = min(nodes, int(max(room, 0)/max(size.Amount(res), 1)))
		}
	}
	return nodes
}

// Contains reports whether a node is known to be one of the group. The cluster autoscaler names groups as the cloud does.
func (g *NodeGroup) Contains(n *Node) bool {
	name := path.Base(g.Name) // GKE has URLs
	eks := n.Label("eks.amazonaws.com/nodegroup")
	switch {
	case n.Group != "":
		return n.Group == g.Name
	case eks != "": // eks-NAME-UUID
		id, found := strings.CutPrefix(name, "eks-"+eks+"-")
		return found && len(id) == len("00000000-0000-0000-0000-000000000000")
	case strings.HasSuffix(name, "-grp"): // GKE: gke-CLUSTER-POOL-ID-grp, of nodes gke-CLUSTER-POOL-ID-…
		return strings.HasPrefix(n.Name, strings.TrimSuffix(name, "grp"))
	}
	return strings.HasSuffix(name, "-vmss") && strings.HasPrefix(n.Name, name) // AKS
}

// A NodeBase is the CPU of a node that a share is a part of.
type NodeBase uint8

// The bases.
const (
	OfAllocatable NodeBase = iota // what pods can request
	OfCapacity                    // of the machine, with what is reserved for the system
)

// String returns the name in texts: allocatable CPU or CPU capacity.
func (b NodeBase) String() string {
	if b == OfCapacity {
		return "CPU capacity"
	}
	return "allocatable CPU"
}

// A NodeShare limits the CPU of a pod to a share of a node. The zero value is no limit.
type NodeShare struct {
	Millicores int64    // of the node; 0: not known, so there is no limit
	Share      float64  // 0: no limit
	Base       NodeBase // what Millicores is
	Floor      int64    // millicores that all containers of the pod together keep, divided among them
}

// Most returns the most CPU of a pod in millicores, at least 1, or 0 if there is no limit.
func (s NodeShare) Most() int64 {
	if s.Millicores <= 0 || !(s.Share > 0) {
		return 0
	}
	return max(int64(float64(s.Millicores)*min(s.Share, 1)), 1)
}

// Replicas returns how many replicas are needed so that no pod needs more than the share: ⌈replicas × wanted ÷ Most⌉, if the load is divided
// evenly. wanted is what each of the present replicas needs, in millicores. Without a limit it returns replicas.
func (s NodeShare) Replicas(replicas, wanted int64) int64 {
	most := s.Most()
	if most == 0 {
		return replicas
	}
	needed, _ := integer.ScaledUp(replicas, wanted, most)
	return needed
}

// String describes the share: "25 % of the allocatable CPU (4) of the smallest node".
func (s NodeShare) String() string {
	return fmt.Sprintf("%.4g %% of the %s (%s) of the smallest node", 100*s.Share, s.Base, Format(CPU, s.Millicores))
}
