// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement tells which nodes may take a pod: by the size of nodes that exist or may be added (Sizes), and by the room that the pods on
// them leave (Rooms). It knows labels, taints and requests. What else the scheduler checks, such as pod affinity, is not known: the caller uses
// only the own node of such pods (cluster.Pod.Tied).
package placement

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/fleet"
)

// Sizes tell whether a pod would fit on an empty node.
type Sizes struct {
	Unknown     bool           // no node is known, so that all pods count as placeable
	Growth      *fleet.Growth  // nodes that can be added
	nodes       []cluster.Node // nodes that accept new pods
	selectors   []cluster.NodeSelector
	tolerations []cluster.Tolerations
	largest     map[cluster.Reach][]cluster.Resources
	byName      map[string]cluster.Resources
}

// SizesOf returns the sizes of nodes, and of those that a fleet can add; nil if these are not known. Pods refer to the lists of selectors and tolerations.
func SizesOf(nodes []cluster.Node, selectors []cluster.NodeSelector, tolerations []cluster.Tolerations, f *fleet.Fleet) *Sizes {
	s := &Sizes{
		Unknown: len(nodes) == 0, selectors: selectors, tolerations: tolerations, byName: make(map[string]cluster.Resources, len(nodes)), Growth: fleet.NewGrowth(f),
	}
	for _, n := range nodes {
		if n.TakesPods() {
			s.nodes = append(s.nodes, n)
			s.byName[n.Name] = n.Allocatable
		}
	}
	return s
}

// Fit reports whether a pod with the given requests fits on a node, or on one that can be added beside those on which other pods rely. With ever, groups
// of nodes at their maximum count, too: the last node of one may be on its way.
func (s *Sizes) Fit(p *cluster.Pod, size cluster.Resources) (now, ever bool) {
	if s.onNode(p, size) {
		return true, true
	}
	return s.Growth.CanAdd(p, size)
}

// onNode reports whether a pod with the given requests fits on a node that exists. A pod of a DaemonSet is replaced on its own node. For other
// pods, node selector, required node affinity and tolerations count. If these are not known, only the own node does, and those that accept every pod.
func (s *Sizes) onNode(p *cluster.Pod, size cluster.Resources) bool {
	fits := func(n cluster.Resources) bool { return size.CPU <= n.CPU && size.Memory <= n.Memory }
	if s.Unknown {
		return true
	}
	_, known := s.Accepting(p.Reach())
	own := p.Controller.Kind == "DaemonSet"
	if own || !known {
		if n, ok := s.byName[p.Node]; !ok || fits(n) {
			return true
		}
	}
	return !own && slices.ContainsFunc(s.largestFor(p.Reach()), fits)
}

// Take counts a node that must be added for a pod with the given requests, if it fits on none that exists. No other pod can rely on it.
func (s *Sizes) Take(p *cluster.Pod, size cluster.Resources) {
	if !s.onNode(p, size) {
		s.Growth.Take(p, size)
	}
}

// TakeForNew counts the nodes that must be added for the new pods that have no node yet.
func (s *Sizes) TakeForNew(now time.Time, pods []*cluster.Pod) {
	for _, p := range waiting(pods, now.Add(-addable)) {
		s.Take(p, change.Total(p, nil))
	}
}

// Misfit returns why a pod with the given requests does not fit.
func (s *Sizes) Misfit(p *cluster.Pod, size cluster.Resources) decision.Reason {
	return decision.Reason{Code: decision.NoNodeFits, Text: size.String(), Note: s.AtMaximum(p, size)}
}

// AtMaximum says that no node can be added now for a pod with the given requests, "" if one can, or never can. It names no group of nodes: its owner may not know of them.
func (s *Sizes) AtMaximum(p *cluster.Pod, size cluster.Resources) string {
	if now, ever := s.Growth.CanAdd(p, size); now || !ever {
		return ""
	}
	return "Groups of nodes could add one, but they are at their maximum, other pods need the nodes that they can add, or they wait after a failed scale-up."
}

// largestFor returns the allocatable resources of the nodes that may take a pod, without nodes that are smaller than another one in
// both resources. The result is sorted: CPU falls, memory rises.
func (s *Sizes) largestFor(pods cluster.Reach) []cluster.Resources {
	return cluster.Memo(&s.largest, pods, func() []cluster.Resources {
		accepts, _ := s.Accepting(pods)
		var usable []cluster.Resources
		for i := range s.nodes {
			if n := &s.nodes[i]; accepts(n) {
				usable = append(usable, n.Allocatable)
			}
		}
		return fleet.Largest(usable)
	})
}

// Accepting returns whether a node is known to accept a pod by its labels and taints, and whether that is known for every node. It is not if
// the node selector or the tolerations of the pod are not evaluated or not listed.
func (s *Sizes) Accepting(pods cluster.Reach) (accepts func(*cluster.Node) bool, known bool) {
	selector, known := cluster.SelectorOf(s.selectors, pods.Place)
	if !known {
		return func(*cluster.Node) bool { return false }, false
	}
	tolerations, known := cluster.TolerationsOf(s.tolerations, pods.Tolerance)
	return func(n *cluster.Node) bool { return n.Matches(selector) && tolerations.Tolerate(n.Taints) }, known
}

// MayReturn reports whether the replacement of a pod may run on the node of the pod, which accepted the pod itself.
func (s *Sizes) MayReturn(p *cluster.Pod, own *cluster.Node) bool {
	accepts, known := s.Accepting(p.Reach())
	return !known || accepts(own)
}
