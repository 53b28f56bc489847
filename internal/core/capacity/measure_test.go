// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// gib is a GiB in bytes.
const gib = 1 << 30

func nodeOf(name string, labels ...string) cluster.Node {
	slices.Sort(labels)
	return cluster.Node{Name: name, Ready: true, Allocatable: cluster.Amounts(15_000, 60*gib), Capacity: cluster.Amounts(16_000, 64*gib), Labels: labels}
}

func podOf(name, owner, node string, cpu, memory int64) *cluster.Pod {
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: owner}
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, Controller: key, Top: key, Node: node, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, memory)}},
	}
}

func measure(w *World, pods ...*cluster.Pod) (map[string]Pool, Unplaced) {
	if w.Snapshot == nil {
		w.Snapshot = cluster.NewSnapshot(pods, nil)
	}
	pools, unplaced := Measure(w)
	out := map[string]Pool{}
	for _, p := range pools {
		out[p.Name] = p
	}
	return out, unplaced
}

func TestMeasure_pools_areAddedUp(t *testing.T) {
	cordoned, broken := nodeOf("b2", "karpenter.sh/nodepool=blue"), nodeOf("b3", "karpenter.sh/nodepool=blue")
	cordoned.Cordoned, broken.Ready = true, false
	large := nodeOf("b4", "karpenter.sh/nodepool=blue")
	large.Capacity = cluster.Amounts(32_000, 128*gib)
	w := &World{Nodes: []cluster.Node{nodeOf("a1", "node-role.kubernetes.io/worker="), nodeOf("b1", "karpenter.sh/nodepool=blue"), cordoned, broken, large}}
	daemon := podOf("agent-b2", "agent", "b2", 100, gib)
	daemon.Controller.Kind = "DaemonSet"
	gone := podOf("done", "job", "b1", 9000, gib)
	gone.Phase = cluster.Succeeded
	leaving := podOf("leaving", "web", "b1", 1000, gib)
	leaving.Deleting = true
	pools, unplaced := measure(w, podOf("web-1", "web", "b1", 4000, 8*gib), podOf("web-2", "web", "b2", 2000, 4*gib), daemon, gone, leaving, podOf("api-1", "api", "a1", 500, gib))
	blue := pools["blue"]
	if blue.Nodes != 4 || blue.Schedulable != 2 || blue.Pods != 2 || blue.Capacity != cluster.Amounts(48_000, 192*gib) || blue.WithoutLargest != cluster.Amounts(16_000, 64*gib) {
		t.Errorf("blue: %+v", blue)
	}
	if blue.Requested != cluster.Amounts(6000, 12*gib) {
		t.Errorf("blue: requested %v", blue.Requested)
	}
	if blue.Fit[0].Node != "b4" || blue.Fit[0].Free != cluster.Amounts(15_000, 60*gib) {
		t.Errorf("blue: the largest pod is %+v", blue.Fit[0])
	}
	if worker := pools["worker"]; worker.Requested != cluster.Amounts(500, gib) || worker.Fit[0].Free.CPU != 14_500 {
		t.Errorf("worker: %+v", worker)
	}
	if len(pools) != 2 || unplaced.Pods != 0 {
		t.Errorf("%d pools, unplaced %+v", len(pools), unplaced)
	}
}

func TestMeasure_nodeDisappears_itsPodsStillCount(t *testing.T) {
	w := &World{Nodes: []cluster.Node{nodeOf("n1"), nodeOf("n2")}}
	pods := []*cluster.Pod{podOf("web-1", "web", "n1", 4000, gib), podOf("web-2", "web", "n2", 4000, gib), podOf("web-3", "web", "gone", 4000, gib)}
	daemon := podOf("agent", "agent", "gone", 100, gib)
	daemon.Controller.Kind = "DaemonSet"
	pools, _ := measure(w, append(pods, daemon)...)
	other := pools[OtherNodes]
	if other.Requested.CPU != 12_000 || other.Pending != 1 || other.Capacity.CPU != 32_000 {
		t.Errorf("%+v", other)
	}
}

func TestMeasure_pendingPods_countWhereTheyWillRun(t *testing.T) {
	gpu := nodeOf("g1", "pool=gpu")
	gpu.Tainted, gpu.Taints = true, []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}
	w := &World{
		Nodes: []cluster.Node{nodeOf("a1", "pool=a"), nodeOf("b1", "pool=b"), gpu}, Rules: Rules{PoolLabel: "pool"},
		Selectors:   []cluster.NodeSelector{{Labels: []string{"pool=gpu"}}, {Labels: []string{"pool=none"}}},
		Tolerations: []cluster.Tolerations{{{Key: "gpu", Exists: true}}},
	}
	pending := func(name, owner string, place cluster.Place, tolerance cluster.Tolerance) *cluster.Pod {
		p := podOf(name, owner, "", 1000, gib)
		p.Phase, p.Place, p.Tolerance = cluster.Pending, place, tolerance
		return p
	}
	pools, unplaced := measure(w,
		podOf("web-1", "web", "b1", 8000, gib), podOf("x", "x", "a1", 4000, gib),
		pending("web-2", "web", cluster.Anywhere, cluster.NoTaint),       // beside its sibling in b
		pending("new-1", "new", cluster.Anywhere, cluster.NoTaint),       // in the emptier pool a, not in gpu
		pending("train", "train", cluster.Selected, cluster.FirstListed), // in gpu
		pending("train-x", "train", cluster.Selected, cluster.NoTaint),   // gpu without a toleration: nowhere
		pending("lost", "lost", cluster.Selected+1, cluster.AnyTaint),    // no such node
	)
	for name, want := range map[string]int64{"a": 5000, "b": 9000, "gpu": 1000} {
		if got := pools[name].Requested.CPU; got != want || pools[name].Pending != 1 {
			t.Errorf("%s: %d millicores, %d pending, want %d and 1", name, got, pools[name].Pending, want)
		}
	}
	if unplaced.Pods != 2 || unplaced.Example.Name != "lost" || unplaced.Requests.CPU != 2000 {
		t.Errorf("unplaced: %+v", unplaced)
	}
}

// Anybody who may create pods can request any amount. A pod that no node could ever hold does not make a pool full: more nodes would not help.
func TestMeasure_pendingPodIsLargerThanEveryNode_isUnplaced(t *testing.T) {
	for name, tt := range map[string]struct {
		cpu, memory int64
		unplaced    int
	}{
		"as large as a node": {15_000, 60 * gib, 0},
		"too much CPU":       {15_001, gib, 1},
		"too much memory":    {100, 1 << 50, 1},
	} {
		pods := []*cluster.Pod{podOf("web-1", "web", "n1", 1000, gib)}
		for i := range 3 {
			p := podOf(fmt.Sprint("large-", i), "web", "", tt.cpu, tt.memory)
			p.Phase = cluster.Pending
			pods = append(pods, p)
		}
		pools, unplaced := measure(&World{Nodes: []cluster.Node{nodeOf("n1"), nodeOf("n2")}}, pods...)
		if got := pools[OtherNodes]; unplaced.Pods != 3*tt.unplaced || got.Pending != 3-unplaced.Pods || tt.unplaced > 0 && got.Requested != cluster.Amounts(1000, gib) {
			t.Errorf("%s: unplaced %+v, requested %v of %d pending pods", name, unplaced, got.Requested, got.Pending)
		}
	}
}

func TestMeasure_manyHugePendingPods_sumIsBounded(t *testing.T) {
	pods := make([]*cluster.Pod, 9000)
	for i := range pods {
		pods[i] = podOf(fmt.Sprint("huge-", i), "web", "", 1<<50, 1<<50)
		pods[i].Phase = cluster.Pending
	}
	_, unplaced := measure(&World{Nodes: []cluster.Node{nodeOf("n1")}}, pods...)
	if unplaced.Requests.CPU <= 0 || unplaced.Requests.Memory <= 0 {
		t.Errorf("unplaced %+v", unplaced)
	}
}

func TestMeasure_recommendations_areWhatCouldBeGivenBack(t *testing.T) {
	w := &World{Nodes: []cluster.Node{nodeOf("n1")}}
	target := func(name string, cpu, memory int64) *cluster.Autoscaler {
		return &cluster.Autoscaler{
			Key: cluster.Key{Namespace: "shop", Name: name}, Mode: cluster.Off, Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name},
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(cpu, memory)}}},
		}
	}
	pods := []*cluster.Pod{
		podOf("web-1", "web", "n1", 2000, gib), podOf("web-2", "web", "n1", 2000, gib), // each gives 1500, and needs more memory
		podOf("db", "db", "n1", 500, 8*gib),      // needs more CPU, gives 4 GiB
		podOf("other", "other", "n1", 1000, gib), // no recommendation
	}
	w.Snapshot = cluster.NewSnapshot(pods, []*cluster.Autoscaler{target("web", 500, 2*gib), target("db", 900, 4*gib)})
	pools, _ := measure(w)
	p := pools[OtherNodes]
	if p.Recoverable != cluster.Amounts(3000, 4*gib) || p.GiveBack != [2]int{1, 1} || p.Unadvised != 1 {
		t.Errorf("recoverable %v of %v workloads, %d without a recommendation", p.Recoverable, p.GiveBack, p.Unadvised)
	}
}

func TestMeasure_noLabelsAndNoCapacity_isOnePoolWithoutADate(t *testing.T) {
	n := cluster.Node{Name: "n1", Ready: true}
	pools, _ := measure(&World{Nodes: []cluster.Node{n}}, podOf("web", "web", "n1", 1000, gib))
	p := pools[OtherNodes]
	if p.Capacity.CPU != 0 || p.Requested.CPU != 1000 || p.Fit[0].Node != "" {
		t.Errorf("%+v", p)
	}
	h := new(History)
	plan := Assess(now, []Pool{p}, Unplaced{}, map[string]*History{OtherNodes: h}, Defaults())
	for _, r := range plan.Pools[0].Resources {
		if r.Outlook.Shortage != NoCapacity || r.Advice != Unforeseen || r.Outlook.OrderBy != 0 || r.AdviceText() != "no schedulable capacity" {
			t.Errorf("%s: %+v, %q", r.Resource, r.Outlook, r.AdviceText())
		}
	}
}

func TestMeasure_allocatable_isTheCapacityIfSelected(t *testing.T) {
	pools, _ := measure(&World{Nodes: []cluster.Node{nodeOf("n1")}, Allocatable: true})
	if got := pools[OtherNodes].Capacity; got != cluster.Amounts(15_000, 60*gib) {
		t.Errorf("capacity %v", got)
	}
}

func TestMeasure_manyPools_areBounded(t *testing.T) {
	w := &World{}
	for i := range 40 {
		w.Nodes = append(w.Nodes, nodeOf(fmt.Sprintf("n%02d", i), fmt.Sprintf("karpenter.sh/nodepool=p%02d", i)))
	}
	pools, _ := measure(w)
	if len(pools) != MostPools || pools[OtherNodes].Nodes != 40-MostPools+1 {
		t.Errorf("%d pools, %d nodes in the last one", len(pools), pools[OtherNodes].Nodes)
	}
}

func TestMeasure_rules_selectPoolsAndLeadTimes(t *testing.T) {
	rules := Rules{Pools: []Rule{{Pool: "gpu", Labels: []string{"accelerator=nvidia"}, LeadTime: 60}, {Pool: "blue", LeadTime: 7}, {Pool: "never"}}}
	pools, _ := measure(&World{Nodes: []cluster.Node{nodeOf("n1", "accelerator=nvidia", "karpenter.sh/nodepool=blue"), nodeOf("n2", "karpenter.sh/nodepool=blue")}, Rules: rules})
	if pools["gpu"].Nodes != 1 || pools["blue"].Nodes != 1 || len(pools) != 2 {
		t.Errorf("%+v", pools)
	}
	for pool, want := range map[string]int{"gpu": 60, "blue": 7, "other": 14} {
		if got := rules.LeadTime(pool, 14); got != want {
			t.Errorf("%s: %d days, want %d", pool, got, want)
		}
	}
}

func TestRequested_sidecarsInitContainersAndResizes_countAsInTheScheduler(t *testing.T) {
	c := func(role cluster.ContainerRole, cpu int64) cluster.Container {
		return cluster.Container{Role: role, Requests: cluster.Amounts(cpu, 0)}
	}
	shrunk := c(cluster.Regular, 100)
	shrunk.Applied = &cluster.Applied{Requests: cluster.Amounts(900, 0)}
	for name, x := range map[string]struct {
		pod  cluster.Pod
		want int64
	}{
		"none":                  {cluster.Pod{}, 0},
		"sum":                   {cluster.Pod{Containers: []cluster.Container{c(cluster.Regular, 100), c(cluster.Regular, 200)}}, 300},
		"sidecar":               {cluster.Pod{Containers: []cluster.Container{c(cluster.Sidecar, 50), c(cluster.Regular, 200)}}, 250},
		"init is larger":        {cluster.Pod{Containers: []cluster.Container{c(cluster.Init, 700), c(cluster.Regular, 200)}}, 700},
		"init beside a sidecar": {cluster.Pod{Containers: []cluster.Container{c(cluster.Sidecar, 50), c(cluster.Init, 700), c(cluster.Regular, 200)}}, 750},
		"init before a sidecar": {cluster.Pod{Containers: []cluster.Container{c(cluster.Init, 700), c(cluster.Sidecar, 50), c(cluster.Regular, 200)}}, 700},
		"resize is not done":    {cluster.Pod{Containers: []cluster.Container{shrunk}}, 900},
		"pod level":             {cluster.Pod{PodLevel: &cluster.PodResources{Requests: cluster.Amounts(1000, 0)}, Containers: []cluster.Container{c(cluster.Regular, 200)}}, 1000},
	} {
		if got := x.pod.Requested().CPU; got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}
