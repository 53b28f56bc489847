// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"reflect"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// amountsOf returns an amount of CPU in cores and of memory in GiB.
func amountsOf(cores, gibs int64) cluster.Resources { return cluster.Amounts(cores*1000, gibs<<30) }

// inPools returns the required node affinity to nodes of one of the pools.
func inPools(pools ...string) cluster.NodeSelector {
	return cluster.NodeSelector{Terms: []cluster.NodeTerm{{{Prefix: "pool=", Values: pools}}}}
}

func TestFleet_nodesForAPod_areThoseItAccepts(t *testing.T) {
	gpu := []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	tolerates := cluster.Tolerations{{Key: "gpu", Exists: true}}
	config := Config{
		Nodes: []cluster.Node{
			{Name: "small", Allocatable: amountsOf(4, 8), Labels: []string{"pool=a"}},
			{Name: "big", Allocatable: amountsOf(16, 64), Labels: []string{"pool=b"}},
			{Name: "gpu", Allocatable: amountsOf(64, 128), Taints: gpu, Tainted: true},
			{Name: "cordoned", Allocatable: amountsOf(96, 256), Cordoned: true},
			{Name: "new"},
		},
		Daemons: []cluster.Daemon{
			{Key: cluster.Key{Namespace: "kube-system", Name: "proxy"}, Requests: amountsOf(1, 1), Tolerations: cluster.Tolerations{{Exists: true}}},
			{Key: cluster.Key{Namespace: "kube-system", Name: "only-b"}, Requests: amountsOf(1, 2), Selector: cluster.NodeSelector{Labels: []string{"pool=b"}}},
			{Key: cluster.Key{Namespace: "kube-system", Name: "only-c"}, Requests: amountsOf(2, 2), Selector: inPools("c")},
			{Key: cluster.Key{Namespace: "kube-system", Name: "unknown"}, Requests: amountsOf(9, 9), Somewhere: true},
		},
		Selectors: []cluster.NodeSelector{{Labels: []string{"pool=a"}}, {Labels: []string{"pool=c"}}, inPools("a"), inPools("a", "b")}, Tolerations: []cluster.Tolerations{tolerates},
	}
	for name, c := range map[string]struct {
		pod  cluster.Pod
		add  []cluster.NewNode
		want []cluster.Resources
	}{
		"any node without a taint": {cluster.Pod{}, nil, []cluster.Resources{amountsOf(14, 61)}},
		"a node selector":          {cluster.Pod{Place: cluster.Selected}, nil, []cluster.Resources{amountsOf(3, 7)}},
		"a node affinity":          {cluster.Pod{Place: cluster.Selected + 2}, nil, []cluster.Resources{amountsOf(3, 7)}},
		"an affinity to two pools": {cluster.Pod{Place: cluster.Selected + 3}, nil, []cluster.Resources{amountsOf(14, 61)}},
		"no node for the selector": {cluster.Pod{Place: cluster.Selected + 1}, nil, nil},
		"a toleration":             {cluster.Pod{Tolerance: cluster.FirstListed}, nil, []cluster.Resources{amountsOf(63, 127)}},
		// Any tenant can fill the list of tolerations. The webhook knows the tolerations of the pod, so a size that is larger than those
		// that it sets would cause evictions without effect.
		"unlisted tolerations":     {cluster.Pod{Tolerance: cluster.Unlisted}, nil, []cluster.Resources{amountsOf(14, 61)}},
		"tolerates all taints":     {cluster.Pod{Tolerance: cluster.AnyTaint}, nil, []cluster.Resources{amountsOf(63, 127)}},
		"a node that can be added": {cluster.Pod{}, []cluster.NewNode{{Size: amountsOf(33, 17)}}, []cluster.Resources{amountsOf(32, 16), amountsOf(14, 61)}},
		"a tainted node that can be added": {
			cluster.Pod{}, []cluster.NewNode{{Size: amountsOf(33, 17), Taints: gpu}}, []cluster.Resources{amountsOf(14, 61)},
		},
		"a pod of a DaemonSet": {
			cluster.Pod{Node: "big", Controller: cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "only-b"}}, nil,
			[]cluster.Resources{amountsOf(15, 63)},
		},
		"a pod of a DaemonSet of another API group": { // as in the webhook
			cluster.Pod{Node: "small", Controller: cluster.Workload{Group: "apps.kruise.io", Kind: "DaemonSet", Namespace: "kube-system", Name: "x"}}, nil,
			[]cluster.Resources{amountsOf(3, 7)},
		},
		"an unscheduled pod of a DaemonSet": {
			cluster.Pod{Controller: cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "only-b"}}, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			config.New = c.add
			f := New(config)
			for range 2 { // the second time from the cache
				if got := f.Of(&c.pod).Largest; !reflect.DeepEqual(got, c.want) {
					t.Errorf("sizes %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestSizes_hold_anyNodeThatIsLargeEnoughInBothResources(t *testing.T) {
	two := &Sizes{Largest: []cluster.Resources{amountsOf(16, 8), amountsOf(4, 64)}}
	for name, c := range map[string]struct {
		sizes    *Sizes
		requests cluster.Resources
		want     bool
	}{
		"first node":                     {two, amountsOf(16, 8), true},
		"second node":                    {two, amountsOf(4, 64), true},
		"each resource on another node":  {two, amountsOf(16, 64), false},
		"nodes are unknown":              {nil, amountsOf(99, 99), true},
		"no node takes the pod":          {&Sizes{}, amountsOf(99, 99), true},
		"pod without a request for CPU":  {two, cluster.Resources{}.Set(cluster.Memory, 64<<30), true},
		"more memory than the large one": {two, amountsOf(1, 65), false},
	} {
		if got := c.sizes.Hold(c.requests); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestFleet_canAdd_nodesWithTheTaintsThatThePodTolerates(t *testing.T) {
	gpu := []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	f := New(Config{
		Daemons:     []cluster.Daemon{{Key: cluster.Key{Namespace: "kube-system", Name: "proxy"}, Requests: amountsOf(1, 1), Tolerations: cluster.Tolerations{{Exists: true}}}},
		Tolerations: []cluster.Tolerations{{{Key: "gpu", Exists: true}}},
		New:         []cluster.NewNode{{Size: amountsOf(8, 16)}, {Size: cluster.Resources{}.Set(cluster.CPU, 32_000), Taints: gpu}},
		Unscaled:    true,
	})
	for name, c := range map[string]struct {
		pod      cluster.Pod
		requests cluster.Resources
		want     bool
	}{
		"fits beside the DaemonSet":              {cluster.Pod{}, amountsOf(7, 15), true},
		"does not fit beside the DaemonSet":      {cluster.Pod{}, amountsOf(8, 15), false},
		"tolerates the larger node":              {cluster.Pod{Tolerance: cluster.FirstListed}, amountsOf(31, 999), true},
		"tolerations are not listed":             {cluster.Pod{Tolerance: cluster.Unlisted}, amountsOf(31, 1), false},
		"tolerates all taints":                   {cluster.Pod{Tolerance: cluster.AnyTaint}, amountsOf(31, 1), true},
		"more CPU than any node that can be had": {cluster.Pod{Tolerance: cluster.AnyTaint}, amountsOf(32, 1), false},
	} {
		if got, _ := NewGrowth(f).CanAdd(&c.pod, c.requests); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if now, ever := NewGrowth(nil).CanAdd(&cluster.Pod{}, amountsOf(0, 0)); now || ever {
		t.Error("a node can be added although none is known")
	}
	if f.Of(&cluster.Pod{}) != nil || f.For(cluster.NodeSelector{}, nil, true) != nil || f.OnNode("n", cluster.Key{}) != nil {
		t.Error("pods are scaled down to nodes although that is off")
	}
}

// A node that cannot be added now holds no pod. The sizes of pods stay the same: they do not change with the number of nodes.
func TestFleet_groupIsFull_nodeIsNotAddedAndSizesStay(t *testing.T) {
	gpu := []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	for name, c := range map[string]struct {
		group cluster.NodeGroup
		now   bool
	}{
		"not known":         {cluster.NodeGroup{}, true},
		"one more":          {cluster.NodeGroup{Counted: true, More: 1}, true},
		"at its maximum":    {cluster.NodeGroup{Counted: true}, false},
		"backs off":         {cluster.NodeGroup{Counted: true, More: 1, BackedOff: true}, false},
		"room for less":     {cluster.NodeGroup{Room: amountsOf(7, 99)}, false},
		"room for the pod":  {cluster.NodeGroup{Room: amountsOf(8, 99)}, true},
		"no room":           {cluster.NodeGroup{Room: amountsOf(-3, 99)}, false},
		"too little memory": {cluster.NodeGroup{Room: cluster.Resources{}.Set(cluster.Memory, 1)}, false},
		"enough memory":     {cluster.NodeGroup{Room: cluster.Resources{}.Set(cluster.Memory, 99<<30)}, true},
	} {
		config := Config{
			Nodes: []cluster.Node{{Name: "small", Allocatable: amountsOf(4, 8)}},
			New:   []cluster.NewNode{{Size: amountsOf(16, 32), NodeGroup: c.group}, {Size: amountsOf(99, 99), Unsized: true}, {Size: amountsOf(99, 99), Taints: gpu}},
		}
		f := New(config)
		if now, ever := NewGrowth(f).CanAdd(&cluster.Pod{}, amountsOf(8, 16)); now != c.now || !ever {
			t.Errorf("%s: can be added now %t, ever %t", name, now, ever)
		}
		if now, ever := NewGrowth(f).CanAdd(&cluster.Pod{}, amountsOf(17, 1)); now || ever {
			t.Errorf("%s: a pod that is too large for the node", name)
		}
		want := []cluster.Resources{amountsOf(16, 32)}
		if got := f.Of(&cluster.Pod{}).Largest; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: sizes %v, want %v", name, got, want)
		}
	}
}

func TestFleet_holdsBack_podsThatFillTheirNode(t *testing.T) {
	daemon := cluster.Daemon{Key: cluster.Key{Namespace: "kube-system", Name: "proxy"}, Requests: amountsOf(1, 1), Tolerations: cluster.Tolerations{{Exists: true}}}
	for name, c := range map[string]struct {
		node       string
		has, wants cluster.Resources
		unscaled   bool
		want       bool
	}{
		"fills the room beside the DaemonSet": {node: "n", has: amountsOf(3, 1), wants: amountsOf(5, 1), want: true},
		"half of it":                          {node: "n", has: amountsOf(2, 1), wants: amountsOf(5, 1)},
		"should have no more":                 {node: "n", has: amountsOf(3, 1), wants: amountsOf(3, 1)},
		"too large for every node":            {node: "n", has: amountsOf(3, 1), wants: amountsOf(9, 1)},
		"its node is not known":               {node: "other", has: amountsOf(3, 1), wants: amountsOf(5, 1)},
		"pods are not scaled down to nodes":   {node: "n", has: amountsOf(3, 1), wants: amountsOf(5, 1), unscaled: true},
	} {
		f := New(Config{
			Nodes:   []cluster.Node{{Name: "n", Ready: true, Allocatable: amountsOf(4, 8)}, {Name: "large", Ready: true, Allocatable: amountsOf(8, 8)}},
			Daemons: []cluster.Daemon{daemon}, Unscaled: c.unscaled,
		})
		if got := f.HoldsBack(&cluster.Pod{Node: c.node}, c.has, c.wants); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (*Fleet)(nil).HoldsBack(&cluster.Pod{Node: "n"}, amountsOf(3, 1), amountsOf(5, 1)) {
		t.Error("an unknown fleet holds a pod back")
	}
}
