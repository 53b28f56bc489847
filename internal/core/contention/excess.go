// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"fmt"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// The ranks of the causes of UsageAboveRequest: that of the container with the highest one is the reason of the condition.
const (
	rankStarting = iota
	rankSpare
	rankOneReplica
	rankTooLow
)

// AboveRequest returns the finding for containers whose usage is above their request. spare has the nodes that are known to have spare CPU.
//
// The causes count in this order: the container is starting; only few of its replicas use that much; the request is too low, because the
// recommendation is above it, or the usage is at the limit; nobody is harmed, because the nodes have spare CPU. Without spare CPU the
// request counts as too low.
func AboveRequest(excesses []Excess, s *Situation, spare map[string]bool) Finding {
	var out []opinion
	for i := range excesses {
		out = append(out, excesses[i].opinion(s, spare))
	}
	return join(out)
}

func (e *Excess) opinion(s *Situation, spare map[string]bool) opinion {
	text := fmt.Sprintf("Container %s has used more CPU than its request for at least 30 minutes: about %s of %s in %s. ",
		e.Container, cpu(e.Usage), cpu(e.Request), where(len(e.Pods), e.Worst.Name))
	switch {
	case e.Cause == Starting:
		return opinion{Finding{Starting, text + "It started less than 45 minutes ago, so the cause may be its start. If each start needs this much CPU, set startupBoost in this VPA."}, rankStarting}
	case e.Cause == OneReplica:
		return opinion{Finding{OneReplica, text + fmt.Sprintf("The median of its replicas is about %s, so the load is not balanced or the process is stuck in a loop. Examine the pod, or delete it.", cpu(e.Median))}, rankOneReplica}
	case !e.isNeeded(s) && e.onSpare(spare):
		return opinion{Finding{NodeHasSpare, text + "No other pod is harmed, because its node has spare CPU. " + s.notApplied(e.Container, e.Request)}, rankSpare}
	}
	return opinion{Finding{RequestTooLow, text + s.notApplied(e.Container, e.Request)}, rankTooLow}
}

// isNeeded reports whether a higher request is recommended, or the container uses nearly all of its limit.
func (e *Excess) isNeeded(s *Situation) bool {
	wanted, _, known := s.target(e.Container)
	if known && wanted > e.Request {
		return true
	}
	limit := limitOf(e.Worst.Container(e.Container))
	return limit > 0 && float64(e.Usage) >= atLimit*float64(limit)
}

// onSpare reports whether all nodes of the pods have spare CPU.
func (e *Excess) onSpare(spare map[string]bool) bool {
	return !slices.ContainsFunc(e.Pods, func(p *cluster.Pod) bool { return !spare[p.Node] })
}

// spareBelow is the used share of the allocatable CPU of a node below which it has spare CPU.
const spareBelow = 0.5

// Spare returns the nodes that use less than half of their allocatable CPU. pods are all pods of the cluster, and used has their usage in
// millicores. A pod without usage counts with its request, and a node without any usage is not in the result.
func Spare(nodes []cluster.Node, pods []*cluster.Pod, used map[cluster.Key]int64) map[string]bool {
	sums := make(map[string]float64, len(nodes))
	measured := make(map[string]bool, len(nodes))
	for _, p := range pods {
		if p.Node == "" || p.Phase == cluster.Succeeded || p.Phase == cluster.Failed {
			continue
		}
		v, known := used[p.Key]
		if known {
			measured[p.Node] = true
		} else {
			v = p.Requested().Amount(cluster.CPU)
		}
		sums[p.Node] += float64(v)
	}
	out := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		size := n.Allocatable.Amount(cluster.CPU)
		if measured[n.Name] && size > 0 && sums[n.Name] < spareBelow*float64(size) {
			out[n.Name] = true
		}
	}
	return out
}
