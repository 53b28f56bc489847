// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// World is what Plan looks at. Nothing in it is changed.
type World struct {
	Governed []Governed

	// Limits bound the pods of a namespace.
	Limits map[string]policy.Limits

	// Scales says how many replicas the direct controllers of pods want (Pod.Controller). A controller that is not in
	// it has an unknown number of replicas.
	Scales map[cluster.Workload]cluster.Scale

	// Nodes are those that a replacement could be scheduled on. When there are none, nothing is known of them, and it
	// is not asked whether a replacement would fit.
	Nodes []cluster.Node

	// Selectors are the node selectors that pods have, from cluster.Selected on (Pod.Place). A pod whose selector is not
	// among them could be placed on any node whose taints it tolerates.
	Selectors [][]string

	// Tolerations are those that pods have, from cluster.FirstListed on (Pod.Tolerance). A pod whose tolerations are not
	// among them counts as one that tolerates all taints.
	Tolerations []cluster.Tolerations

	// Ledger is what was tried before. Nil when nothing was.
	Ledger *Ledger

	// Failed, if set, is called when an error in this program keeps Begin from deciding on the pods of an autoscaler, while
	// the stack still shows where: the other autoscalers are not affected. When it is nil, Begin panics.
	Failed func(a *cluster.Autoscaler, cause any)
}

// Governed is an autoscaler and the pods it governs: all of them, those too that are not scheduled yet, are being deleted
// or have finished.
type Governed struct {
	Autoscaler *cluster.Autoscaler
	Pods       []*cluster.Pod
}

// Gather assigns pods to the autoscalers that govern them: those that target the pod's topmost controller, and of
// several the one that cluster.Elect chooses. An autoscaler whose target names no API group takes controllers of any
// group with the same kind and name, unless another names the group. The result is sorted; autoscalers that govern no
// pod are in it too, those that lost the election are in it without pods.
func Gather(as []*cluster.Autoscaler, pods []*cluster.Pod) []Governed {
	byTarget := make(map[cluster.Workload][]*cluster.Autoscaler, len(as))
	for _, a := range as {
		byTarget[a.Target] = append(byTarget[a.Target], a)
	}
	podsOf := make(map[*cluster.Autoscaler][]*cluster.Pod, len(as))
	elected := make(map[cluster.Workload]*cluster.Autoscaler, len(as))
	for _, p := range pods {
		if p.Top.IsZero() {
			continue
		}
		a, known := elected[p.Top]
		if !known {
			if a = cluster.Elect(byTarget[p.Top]); a == nil && p.Top.Group != "" {
				any := p.Top
				any.Group = ""
				a = cluster.Elect(byTarget[any])
			}
			elected[p.Top] = a
		}
		if a != nil {
			podsOf[a] = append(podsOf[a], p)
		}
	}
	out := make([]Governed, 0, len(as))
	for _, a := range as {
		out = append(out, Governed{Autoscaler: a, Pods: podsOf[a]})
	}
	slices.SortFunc(out, func(a, b Governed) int { return a.Autoscaler.Key.Compare(b.Autoscaler.Key) })
	return out
}
