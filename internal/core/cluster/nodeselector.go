// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"path"
	"slices"
	"strings"
)

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
