// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestRecommender_podFitsOnNoNode_setsNeedsLargerNode(t *testing.T) {
	memory := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, v) }
	node := func(name string, gib int64) cluster.Node {
		return cluster.Node{Name: name, Allocatable: cluster.Amounts(8000, gib<<30), Ready: true}
	}
	for name, c := range map[string]struct {
		nodes                        []cluster.Node
		mode                         cluster.Mode
		minimum                      int64 // minAllowed
		flags                        []string
		wantStatus, wantReason, want string
	}{
		"it fits":             {nodes: []cluster.Node{node("n", 64)}, wantStatus: watcher.Removed},
		"nodes are not known": {wantStatus: watcher.Removed},
		"mode Off":            {nodes: []cluster.Node{node("n", 8)}, mode: cluster.Off, wantStatus: watcher.Removed},
		"scaled down": {
			nodes: []cluster.Node{node("n", 12), node("m", 4)}, wantStatus: watcher.True, wantReason: v1alpha1.ReasonScaledDown,
			want: "2 pods fit with their recommended size on no node that may take them. A node needs cpu=",
		},
		"the size that the pods get": {
			nodes: []cluster.Node{node("n", 12)}, wantStatus: watcher.True, wantReason: v1alpha1.ReasonScaledDown, want: "memory=12Gi instead.",
		},
		"a minimum that does not fit": {
			nodes: []cluster.Node{node("n", 8)}, minimum: 9 << 30, wantStatus: watcher.True, wantReason: v1alpha1.ReasonNoNodeFits, want: "New pods stay Pending.",
		},
		"switched off": {
			nodes: []cluster.Node{node("n", 8)}, flags: []string{"--fit-nodes=false"},
			wantStatus: watcher.True, wantReason: v1alpha1.ReasonNoNodeFits, want: "--fit-nodes is false",
		},
		"a node that can be added": {
			nodes: []cluster.Node{node("n", 8)}, flags: []string{"--max-node-cpu=8", "--max-node-memory=64Gi"}, wantStatus: watcher.Removed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				flags := pflag.NewFlagSet("", pflag.ContinueOnError)
				b.config.Flags(flags)
				if err := flags.Parse(c.flags); err != nil {
					t.Fatal(err)
				}
				b.use["app"] = cluster.Amounts(300, 10<<30)
				b.nodes = c.nodes
				a := b.autoscale("web", b.deployment("web", 2, "app"))
				a.Mode = c.mode
				if c.minimum > 0 {
					a.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: memory(c.minimum)}}
				}
				b.run(10 * time.Minute)
				got := b.condition("web", v1alpha1.ConditionNeedsLargerNode)
				if string(got.Status) != c.wantStatus || got.Reason != c.wantReason || !strings.Contains(strings.ToLower(got.Message), strings.ToLower(c.want)) {
					t.Errorf("condition %+v, want status %q, reason %q, text %q", got, c.wantStatus, c.wantReason, c.want)
				}
				if advice := b.autoscalers[0].AdviceFor("app"); advice == nil || advice.Target.Memory < 10<<30 {
					t.Errorf("recommendation %+v, want at least 10Gi in the status", advice)
				}
			})
		})
	}
}

// While a container cannot be sized for full nodes, it has the request of balanced, and the condition says why.
func TestRecommender_profilePacked_sizesByNodesAndSaysWhereItCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 4<<30)
		for name, profile := range map[string]string{"web": "packed", "other": "balanced"} {
			b.autoscale(name, b.deployment(name, 2, "app")).Recommender = profile
		}
		trial := b.autoscale("trial", b.autoscalers[0].Target)
		trial.Recommender, trial.Created, trial.Mode = "packed", time.Now().Add(time.Minute), cluster.Off
		only := b.autoscale("only", b.deployment("only", 2, "app")) // recommends without changing pods
		only.Recommender, only.Mode = "packed", cluster.Off
		check := func(when, reason, text string) {
			t.Helper()
			for _, name := range []string{"web", "only"} {
				c := b.standing(name, v1alpha1.ConditionPackingNotPossible)
				if c.Reason != reason || reason != "" && (c.Status != watcher.True || !strings.Contains(c.Message, text)) {
					t.Errorf("%s: VPA %s has the condition %+v, want %s: %s", when, name, c, reason, text)
				}
			}
			web, other := b.advice("web", "app").Target, b.advice("other", "app").Target
			if web == other != (reason != "") {
				t.Errorf("%s: target %v, that of balanced is %v", when, web, other)
			}
			for _, name := range []string{"other", "trial"} { // with balanced, and a second VPA of a workload
				if c := b.standing(name, v1alpha1.ConditionPackingNotPossible); c.Status == watcher.True {
					t.Errorf("%s: VPA %s has the condition %+v", when, name, c)
				}
			}
		}
		b.run(time.Hour)
		check("without nodes", v1alpha1.ReasonNodesNotKnown, "Profile packed sizes container app as balanced does: no node is known")
		b.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true}}
		b.run(time.Hour)
		check("after two hours", v1alpha1.ReasonTooYoung, "fewer than three days")
		b.run(72 * time.Hour)
		check("after three days", "", "")
		advice := b.advice("web", "app")
		if want := int64(4<<30) * 100 / 85; advice.Target.Memory < want || advice.Target.Memory > want+want/200 || !near(advice.MemoryLimit, 8<<30) {
			t.Errorf("memory request %d and limit %d, want %d, which leaves 15 %% of a node free, and twice the peak", advice.Target.Memory, advice.MemoryLimit, want)
		}
		b.nodes[0].Allocatable.Memory = 7 << 30
		b.run(time.Hour)
		check("on smaller nodes", v1alpha1.ReasonLargerThanHalf, "more than half of the memory of the smallest node")
	})
}

// A container that an HPA scales by CPU has the CPU request of balanced, whatever podfit does with the request. With --hpa=ignore the HPA is not known, as
// if there were none, and the label of the pods has the same effect.
func TestRecommender_packedBesideAnHPA_keepsTheCPURequestOfBalanced(t *testing.T) {
	hpa := func(a *cluster.Autoscaler) {
		a.Horizontal = []*cluster.HorizontalAutoscaler{{
			Key: cluster.Key{Namespace: a.Namespace, Name: "hpa"}, Target: a.Target, Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}},
		}}
	}
	for name, c := range map[string]struct {
		change func(*cluster.Autoscaler)
		label  string
		packed bool
	}{
		"no HPA": {change: func(*cluster.Autoscaler) {}, packed: true},
		"by CPU": {change: hpa},
		"preserve-scale-point": {change: func(a *cluster.Autoscaler) {
			hpa(a)
			a.PreserveScalePoint = true
		}},
		"by memory": {change: func(a *cluster.Autoscaler) {
			hpa(a)
			a.Horizontal[0].Utilization[0].Resource = cluster.Memory
		}, packed: true},
		"--hpa=ignore, labelled": {change: func(*cluster.Autoscaler) {}, label: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.config.Interval = 5 * time.Minute
				b.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(16000, 64<<30), Ready: true}}
				for name, profile := range map[string]string{"web": "packed", "other": "balanced"} {
					a := b.autoscale(name, b.deployment(name, 2, "app"))
					a.Recommender = profile
					c.change(a)
				}
				for _, p := range b.pods {
					p.Marks = &cluster.Marks{Criticality: cluster.Criticality{Labelled: c.label != "", Label: c.label}}
				}
				for day := range 5 {
					b.use["app"] = cluster.Amounts(300+100*int64(day%2), 4<<30)
					b.run(24 * time.Hour)
				}
				web, balanced := b.advice("web", "app").Target, b.advice("other", "app").Target
				if web.CPU == balanced.CPU == c.packed || web.Memory == balanced.Memory {
					t.Errorf("target %v, that of balanced is %v; want another CPU request: %v, and another memory request", web, balanced, c.packed)
				}
			})
		})
	}
}
