// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"slices"
	"testing"
)

func TestNodeGroup_growth_isBoundedByCountsAndRoom(t *testing.T) {
	const gib = 1 << 30
	size := Amounts(4000, 16*gib)
	cpu := func(v int64) Resources { return Resources{}.Set(CPU, v) }
	for name, c := range map[string]struct {
		group NodeGroup
		nodes int
	}{
		"not known":              {NodeGroup{}, math.MaxInt},
		"three more":             {NodeGroup{Counted: true, More: 3}, 3},
		"none more":              {NodeGroup{Counted: true}, 0},
		"backs off":              {NodeGroup{Counted: true, More: 3, BackedOff: true}, 3},
		"backs off, not counted": {NodeGroup{BackedOff: true}, math.MaxInt},
		"room for two":           {NodeGroup{Room: cpu(11_000)}, 2},
		"room for none":          {NodeGroup{Room: cpu(0)}, 0},
		"more exists than may":   {NodeGroup{Room: cpu(-5000)}, 0},
		"count below the room":   {NodeGroup{Counted: true, More: 1, Room: cpu(11_000)}, 1},
		"less memory than CPU":   {NodeGroup{Room: Amounts(40_000, 20*gib)}, 1},
		"room below one node":    {NodeGroup{Room: cpu(3000)}, 0},
		"the largest room":       {NodeGroup{Room: Amounts(math.MaxInt64, math.MaxInt64)}, math.MaxInt64 / (16 * gib)},
		"count and largest room": {NodeGroup{Counted: true, More: 7, Room: Amounts(math.MaxInt64, math.MaxInt64)}, 7},
		"the most negative room": {NodeGroup{Room: cpu(math.MinInt64)}, 0},
	} {
		if nodes := c.group.Addable(size); nodes != c.nodes {
			t.Errorf("%s: %d nodes", name, nodes)
		}
	}
	if n := (&NodeGroup{Room: cpu(4000)}).Addable(Resources{}); n != 4000 {
		t.Errorf("nodes without a size: %d", n)
	}
}

// A group of the cluster autoscaler has the name that the cloud gives it.
func TestNodeGroup_nodes_belongToTheGroupOfTheirCloud(t *testing.T) {
	const uuid = "a0c1b2d3-1111-2222-3333-444455556666"
	for name, c := range map[string]struct {
		group, node, of string
		labels          []string
		want            bool
	}{
		"NodePool":                       {group: "NodePool/general", node: "n", of: "NodePool/general", want: true},
		"another NodePool":               {group: "NodePool/general", node: "n", of: "NodePool/gpu"},
		"MachineDeployment":              {group: "MachineDeployment/prod/md-0", node: "n", of: "MachineDeployment/prod/md-0", want: true},
		"of another namespace":           {group: "MachineDeployment/prod/md-0", node: "n", of: "MachineDeployment/test/md-0"},
		"EKS":                            {group: "eks-web-" + uuid, node: "ip-10-0-0-1", labels: []string{"eks.amazonaws.com/nodegroup=web"}, want: true},
		"EKS, a longer name":             {group: "eks-web-gpu-" + uuid, node: "ip-10-0-0-1", labels: []string{"eks.amazonaws.com/nodegroup=web"}},
		"EKS, a shorter name":            {group: "eks-web-" + uuid, node: "ip-10-0-0-1", labels: []string{"eks.amazonaws.com/nodegroup=web-gpu"}},
		"GKE":                            {group: "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/gke-prod-web-1a2b3c4d-grp", node: "gke-prod-web-1a2b3c4d-x1y2", want: true},
		"GKE, another group of the pool": {group: "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/gke-prod-web-1a2b3c4d-grp", node: "gke-prod-web-9f8e7d6c-x1y2"},
		"AKS":                            {group: "aks-web-12345678-vmss", node: "aks-web-12345678-vmss00000a", want: true},
		"AKS, another pool":              {group: "aks-web-12345678-vmss", node: "aks-web2-12345678-vmss00000a"},
		"a group of another kind":        {group: "nodes.prod.example.com", node: "nodes.prod.example.com-1"},
		"no name":                        {group: "", node: "n"},
		"only a suffix":                  {group: "-grp", node: "n"},
		"only another suffix":            {group: "-vmss", node: "n"},
	} {
		g := NodeGroup{Name: c.group}
		if got := g.Contains(&Node{Name: c.node, Group: c.of, Labels: slices.Sorted(slices.Values(c.labels))}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLowest_amounts_areThoseThatAreSet(t *testing.T) {
	cpu := Resources{}.Set(CPU, 5)
	for _, c := range []struct{ a, b, want Resources }{
		{Amounts(3, 9), Amounts(4, 8), Amounts(3, 8)},
		{cpu, Amounts(7, 8), Amounts(5, 8)},
		{Amounts(7, 8), cpu, Amounts(5, 8)},
		{Resources{}, cpu, cpu},
		{cpu, Resources{}, cpu},
		{Resources{}, Amounts(0, -1), Amounts(0, -1)},
	} {
		if got := c.a.Lowest(c.b); got != c.want {
			t.Errorf("the lowest of %v and %v is %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
