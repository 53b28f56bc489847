// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// OtherNodes is the pool of nodes that no rule and no known label assigns to a pool.
const OtherNodes = "other"

// MostPools is the maximum number of pools. The nodes of further pools, by name, are in the pool OtherNodes.
const MostPools = 16

// A Rule assigns nodes to a pool.
type Rule struct {
	Pool     string
	Labels   []string // that a node has, each as "key=value"; all of them; none: no node
	LeadTime int      // days from an order until nodes serve pods; 0: the one of the plan
}

// Rules assign nodes to pools. The first rule that matches counts. A node without a rule belongs to the pool of its label PoolLabel, or of
// the labels of the known cloud providers, or of its role.
type Rules struct {
	Pools     []Rule
	PoolLabel string // "" means the known labels
}

func (r *Rules) poolOf(n *cluster.Node) string {
	for _, rule := range r.Pools {
		if len(rule.Labels) > 0 && n.Matches(cluster.NodeSelector{Labels: rule.Labels}) {
			return rule.Pool
		}
	}
	if r.PoolLabel != "" {
		return cmp.Or(n.Label(r.PoolLabel), OtherNodes)
	}
	pool, _ := n.Pool()
	role, _ := n.Role()
	return cmp.Or(pool, role, OtherNodes)
}

// LeadTime returns the lead time of a pool in days: its own one, or else otherwise, the one of the plan.
func (r *Rules) LeadTime(pool string, otherwise int) int {
	for i := range r.Pools {
		if r.Pools[i].Pool == pool && r.Pools[i].LeadTime > 0 {
			return r.Pools[i].LeadTime
		}
	}
	return otherwise
}

// Assign returns the pool of each node, with at most MostPools names.
func (r *Rules) Assign(nodes []cluster.Node) []string {
	out := make([]string, len(nodes))
	for i := range nodes {
		out[i] = r.poolOf(&nodes[i])
	}
	names := slices.Compact(slices.Sorted(slices.Values(out)))
	if len(names) <= MostPools {
		return out
	}
	kept := names[:MostPools-1]
	for i := range out {
		if _, ok := slices.BinarySearch(kept, out[i]); !ok {
			out[i] = OtherNodes
		}
	}
	return out
}
