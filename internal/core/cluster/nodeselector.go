// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
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
