// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// drawWorld draws a few workloads of every kind in every state.
func drawWorld(t *rapid.T) (World, Budget) {
	w := World{Scales: map[cluster.Workload]cluster.Scale{}, Limits: map[string]policy.Limits{}, Ledger: ledger.New()}
	var as []*cluster.Autoscaler
	var pods []*cluster.Pod
	for i := range rapid.IntRange(1, 4).Draw(t, "workloads") {
		kind := rapid.SampledFrom([]cluster.Workload{
			{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"},
			{Group: "batch", Kind: "Job"}, {Group: "example.com", Kind: "Widget"}, {Kind: "ReplicationController"},
		}).Draw(t, "kind")
		top := kind
		top.Namespace, top.Name = "shop", fmt.Sprintf("w%d", i)
		controller := top
		if top.Kind == "Deployment" {
			controller.Kind, controller.Name = "ReplicaSet", top.Name+"-7d4"
		}
		n := rapid.IntRange(0, 9).Draw(t, "pods")
		if rapid.IntRange(0, 4).Draw(t, "scale known") > 0 {
			w.Scales[controller] = cluster.Scale{Known: true, Replicas: int32(max(0, n+rapid.IntRange(-1, 1).Draw(t, "missing")))}
		}
		as = append(as, drawAutoscaler(t, top))
		for j := range n {
			pods = append(pods, drawPod(t, top, controller, fmt.Sprintf("%s-%d", top.Name, j)))
		}
	}
	if rapid.Bool().Draw(t, "nodes") {
		w.Nodes = []cluster.Node{
			{Name: "a", Allocatable: cluster.Amounts(2000, 4<<30), Ready: true},
			{Name: "b", Allocatable: cluster.Amounts(4000, 1<<30), Ready: true},
		}
	}
	w.Governed = cluster.Gather(as, pods, true)
	if rapid.Bool().Draw(t, "all pods known") {
		w.Pods = pods
	}
	b := DefaultBudget()
	b.MakeRoom = room.Allowed(rapid.IntRange(0, 3).Draw(t, "make room"))
	b.SkipInPlace = rapid.Bool().Draw(t, "skip in place")
	b.InPlace = rapid.Bool().Draw(t, "gate InPlace")
	b.StartupBoost = rapid.Bool().Draw(t, "gate CPUStartupBoost")
	b.MinReplicas = rapid.IntRange(0, 3).Draw(t, "min replicas")
	b.Tolerance = rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "tolerance")
	return w, b
}

func drawAmounts(t *rapid.T, what string) cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if rapid.IntRange(0, 5).Draw(t, what+" has") > 0 {
			r = r.Set(res, rapid.SampledFrom([]int64{0, 1, 100, 200, 1000, 1 << 20, 1 << 30}).Draw(t, what))
		}
	}
	return r
}

func drawAutoscaler(t *rapid.T, target cluster.Workload) *cluster.Autoscaler {
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: target.Namespace, Name: target.Name}, Target: target,
		Mode: cluster.Mode(rapid.IntRange(0, 5).Draw(t, "mode")), MinReplicas: int32(rapid.IntRange(0, 3).Draw(t, "min")),
	}
	for _, c := range []string{"app", "log"} {
		if rapid.IntRange(0, 5).Draw(t, "advised") > 0 {
			a.Advice = append(a.Advice, cluster.Advice{Container: c, Estimate: cluster.Estimate{
				Lower: drawAmounts(t, "lower"), Target: drawAmounts(t, "target"), Upper: drawAmounts(t, "upper"),
			}})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "required") == 0 {
		a.Requirements = append(a.Requirements, cluster.EvictionRequirement{
			Resources: cluster.Set(rapid.IntRange(0, 3).Draw(t, "of")), Higher: rapid.Bool().Draw(t, "higher"),
		})
	}
	return a
}

func drawPod(t *rapid.T, top, controller cluster.Workload, name string) *cluster.Pod {
	ago := func(what string) time.Time {
		return noon.Add(-rapid.SampledFrom([]time.Duration{0, time.Second, 3 * time.Minute, time.Hour, 20 * time.Hour}).Draw(t, what))
	}
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: top.Namespace, Name: name}, UID: "uid-" + name, Top: top, Controller: controller, Node: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node"),
		Priority: int32(rapid.IntRange(0, 1).Draw(t, "pod priority")),
		Created:  ago("created"), Started: ago("started"), ReadySince: ago("ready since"),
		Ready: rapid.IntRange(0, 3).Draw(t, "ready") > 0, Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0,
		Phase: rapid.SampledFrom([]cluster.Phase{
			cluster.Running, cluster.Running, cluster.Running, cluster.Pending, cluster.Succeeded, cluster.Failed, cluster.UnknownPhase,
		}).Draw(t, "phase"),
	}
	switch rapid.IntRange(0, 9).Draw(t, "place") {
	case 0:
		p.Node, p.Phase, p.Ready = "", cluster.Pending, false
	case 1:
		p.Controller = cluster.Workload{}
	}
	if rapid.IntRange(0, 3).Draw(t, "resizing") == 0 {
		p.Resize = &cluster.Resize{
			State: cluster.ResizeState(rapid.IntRange(0, 5).Draw(t, "state")), Since: ago("since"),
			Problem: cluster.ResizeProblem(rapid.IntRange(0, 1).Draw(t, "problem")),
		}
	}
	for i, n := range []string{"app", "log"} {
		c := cluster.Container{Name: n, Index: uint8(i), Requests: drawAmounts(t, "request"), Limits: drawAmounts(t, "limit")}
		c.Restart = cluster.Set(rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "restart"))
		if rapid.IntRange(0, 3).Draw(t, "applied") == 0 {
			c.Applied = &cluster.Applied{Requests: drawAmounts(t, "applied request"), Limits: c.Limits}
		}
		if rapid.IntRange(0, 4).Draw(t, "exited") == 0 {
			c.Exit = &cluster.Exit{OOM: rapid.Bool().Draw(t, "oom"), Started: ago("exit started"), Finished: ago("finished"), Now: !p.Ready}
		}
		if rapid.IntRange(0, 5).Draw(t, "boosted") == 0 {
			c.Boosted = &cluster.Applied{Requests: c.Requests}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// Every live pod has one decision with a reason. No other pod has a decision.
func TestPlan_anyWorld_eachLivePodHasOneDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		decided := map[*cluster.Pod]decision.Decision{}
		for _, d := range Plan(noon, w, b) {
			if _, twice := decided[d.Pod]; twice {
				t.Fatalf("two decisions for %s", d.Pod.Key)
			}
			if !d.Pod.Live() {
				t.Fatalf("%s is terminating and has a decision", d.Pod.Key)
			}
			if d.Reason.String() == "" || d.Reason.Code.String() == "" {
				t.Fatalf("%s has no reason", d.Pod.Key)
			}
			decided[d.Pod] = d
		}
		for _, g := range w.Governed {
			for _, p := range g.Pods {
				if _, ok := decided[p]; ok != p.Live() {
					t.Fatalf("%s: live %v, has a decision %v", p.Key, p.Live(), ok)
				}
			}
		}
	})
}

// Actions are allowed by the update mode.
func TestPlan_anyWorld_actionsMatchTheMode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		for _, d := range Plan(noon, w, b) {
			mode, unboost := d.Autoscaler.Mode, len(d.Unboost) > 0
			switch {
			case d.Do == decision.Evict && !mode.Evicts(),
				d.Do == decision.Resize && !mode.Resizes() && !unboost,
				d.Do != decision.Leave && mode == cluster.InPlace && !b.InPlace && !unboost,
				d.Fallback && (d.Do != decision.Resize || mode != cluster.InPlaceOrRecreate):
				t.Fatalf("%s: %s (fallback %v) in mode %s", d.Pod.Key, d.Do, d.Fallback, mode)
			}
		}
	})
}

// No more pods of a controller are unavailable than the tolerance allows; with a tolerance of zero, one at a time. Evictions count,
// and resizes that may become an eviction or restart a container.
func TestPlan_anyWorld_budgetIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		taken := map[cluster.Workload]int{}
		for _, d := range Plan(noon, w, b) {
			harmless := d.Do == decision.Resize && !d.Fallback && !change.Restarts(d.Pod, d.With) && (b.SkipInPlace || len(d.Unboost) > 0 || b.MakeRoom != room.Off && change.Shrinks(d.Pod, d.With))
			if d.Do != decision.Leave && d.Pod.Ready && d.Pod.Phase != cluster.Pending && !harmless {
				taken[d.Pod.Controller]++
			}
		}
		for _, g := range w.Governed {
			present, serving := map[cluster.Workload]int{}, map[cluster.Workload]int{}
			for _, p := range g.Pods {
				if p.Phase != cluster.Succeeded && p.Phase != cluster.Failed {
					present[p.Controller]++
				}
				if p.Live() && p.Ready && p.Phase != cluster.Pending && p.Node != "" {
					serving[p.Controller]++
				}
			}
			for controller, n := range taken {
				if present[controller] == 0 {
					continue
				}
				should := present[controller]
				if s := w.Scales[controller]; s.Known && controller.Kind != "Job" {
					should = int(s.Replicas)
				}
				may := int(float64(should) * b.Tolerance)
				left := serving[controller] - n
				if left < should-may && !(may == 0 && n == 1 && serving[controller] == should) {
					t.Fatalf("%s: %d of %d in service, %d taken, %d may be unavailable", controller, serving[controller], should, n, may)
				}
			}
		}
	})
}

// An eviction changes the requests, the replacement fits on a node if it grows, and the pod has a controller.
func TestPlan_anyWorld_evictionsChangeRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		for _, d := range Plan(noon, w, b) {
			if d.Do != decision.Evict && !d.Fallback {
				continue
			}
			fits, _ := placement.SizesOf(w.Nodes, w.Selectors, w.Tolerations, w.Fleet).Fit(d.Pod, change.Total(d.Pod, d.With))
			switch {
			case change.SameSize(d.Pod, d.With) && d.Reason.Code != decision.MovesForRoom:
				t.Fatalf("the replacement of %s would get the same requests", d.Pod.Key)
			case d.Pod.Controller.IsZero():
				t.Fatalf("%s would not be replaced", d.Pod.Key)
			case !(&need.Rules{}).RequirementsMet(d.Autoscaler, d.Pod, d.With):
				t.Fatalf("%s: the eviction requirements do not hold", d.Pod.Key)
			case change.Grows(d.Pod, d.With) && !fits:
				t.Fatalf("%s: the replacement fits no node", d.Pod.Key)
			}
		}
	})
}

// The order of the input does not change the plan, and planning changes no state.
func TestPlan_shuffledWorld_sameDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		first := formatDecisions(Plan(noon, w, b))
		shuffle(rand.New(rand.NewPCG(2, rapid.Uint64().Draw(t, "seed"))), &w)
		if again := formatDecisions(Plan(noon, w, b)); again != first {
			t.Fatalf("the first plan is\n%sand the second\n%s", first, again)
		}
	})
}

// Actions come first, sorted by priority.
func TestPlan_anyWorld_actionsComeFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, b := drawWorld(t)
		pass := Begin(noon, w, b)
		ds := pass.Decisions()
		if !slices.IsSortedFunc(pass.entries, byExecution) {
			t.Fatal(formatDecisions(ds))
		}
		for i := 1; i < len(ds); i++ {
			if ds[i-1].Do == decision.Leave && ds[i].Do != decision.Leave {
				t.Fatal(formatDecisions(ds))
			}
		}
	})
}

func TestGather_severalAutoscalersAndGroups_eachPodHasTheGoverningOne(t *testing.T) {
	core := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	kruise := core
	kruise.Group = "apps.kruise.io"
	old := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "z"}, Target: core, Created: noon}
	young := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "a"}, Target: core, Created: noon.Add(1)}
	noGroup := core
	noGroup.Group = ""
	ungrouped := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "u"}, Target: noGroup}
	pods := []*cluster.Pod{{Key: cluster.Key{Name: "1"}, Top: core}, {Key: cluster.Key{Name: "2"}, Top: kruise}, {Key: cluster.Key{Name: "3"}}}
	got := map[string]int{}
	var order []string
	for _, g := range cluster.Gather([]*cluster.Autoscaler{young, ungrouped, old}, pods, false) {
		got[g.Autoscaler.Name] = len(g.Pods)
		order = append(order, g.Autoscaler.Name)
	}
	// The admission controller looks autoscalers up by group, kind and name. If the updater took any group, it would evict pods that
	// are then not sized.
	if got["z"] != 1 || got["a"] != 0 || got["u"] != 0 || !slices.IsSorted(order) {
		t.Errorf("governed pods: %v in order %v", got, order)
	}
}
