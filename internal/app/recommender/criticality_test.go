// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// critical sets what all pods of a workload say about its criticality; a label of "-" is none.
func (b *bench) critical(w cluster.Workload, label, class string) {
	for i, p := range b.pods {
		if p.Top == w {
			changed := *p
			changed.Marks = &cluster.Marks{Criticality: cluster.Criticality{PriorityClass: class}}
			if label != "-" {
				changed.Marks.Criticality.Labelled, changed.Marks.Criticality.Label = true, label
			}
			b.pods[i] = &changed
		}
	}
}

// standing returns a condition in the status; its zero value if there is none.
func (b *bench) standing(name string, kind v1.VerticalPodAutoscalerConditionType) watcher.Condition {
	for _, c := range b.stand[cluster.Key{Namespace: "shop", Name: name}] {
		if c.Type == kind {
			return c
		}
	}
	return watcher.Condition{}
}

func TestRecommender_criticalityOfPods_isTheFactorLiveAndAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.profiles = map[string]string{"mine": `{"base": "busy-hours", "busyHours": {"criticality": 1.2, "priorityClasses": [{"name": "gold", "criticality": 2}]}}`}
		b.use["app"] = cluster.Amounts(1000, 200<<20)
		plain, labelled, classed, both := b.deployment("plain", 2, "app"), b.deployment("labelled", 2, "app"), b.deployment("classed", 2, "app"), b.deployment("both", 2, "app")
		b.critical(labelled, "3", "")
		b.critical(classed, "-", "gold")
		b.critical(both, "1.5", "gold")
		for _, w := range []cluster.Workload{plain, labelled, classed, both} {
			b.autoscale(w.Name, w).Recommender = "mine"
		}
		check := func(when string, want map[string]int64) {
			t.Helper()
			for name, millicores := range want {
				if got := b.advice(name, "app").Target; !near(got.CPU, millicores) {
					t.Errorf("%s: %s has %v, want %dm", when, name, got, millicores)
				}
			}
		}
		want := map[string]int64{"plain": 1200, "labelled": 3000, "classed": 2000, "both": 1500}
		b.run(2 * time.Hour)
		check("at the start", want)
		b.run(time.Hour)
		check("after a restart", want)
		b.critical(plain, "2", "")
		b.run(time.Hour)
		want["plain"] = 2000
		check("after a new label", want)
		b.pods = nil
		b.run(time.Hour)
		check("after a restart without pods", want)
	})
}

func TestRecommender_invalidCriticality_hasNoEffectAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, label := range []string{"high", "NaN", "0", "99", "", "1e0"} {
			b := newBench(t)
			b.use["app"] = cluster.Amounts(1000, 200<<20)
			web, other := b.deployment("web", 2, "app"), b.deployment("other", 2, "app")
			b.critical(web, label, "")
			b.critical(other, label, "")
			b.autoscale("web", web).Recommender = "busy-hours"
			b.autoscale("other", other).Recommender = "balanced"
			b.run(time.Hour)
			if got := b.advice("web", "app").Target; !near(got.CPU, 1300) {
				t.Errorf("%q: target %v, want the 1300m of the profile", label, got)
			}
			c := b.standing("web", v1alpha1.ConditionCriticalityInvalid)
			if c.Status != watcher.True || c.Reason != v1alpha1.ReasonLabelInvalid ||
				!strings.Contains(c.Message, `a pod of Deployment web must be a number from 1 to 3, such as 1.5, got "`+label+`". The label has no effect: the criticality is 1.3, from the profile. Correct the label in the pod template.`) {
				t.Errorf("%q: the condition is %+v", label, c)
			}
			if c := b.standing("other", v1alpha1.ConditionCriticalityInvalid); c.Status == watcher.True {
				t.Errorf("a profile without criticality has the condition %+v", c)
			}
			b.critical(web, "2", "")
			b.run(time.Hour)
			if c := b.condition("web", v1alpha1.ConditionCriticalityInvalid); c.Status != watcher.Removed {
				t.Errorf("%q: after the correction the condition is %+v", label, c)
			}
		}
	})
}

// cappedBench returns a bench with a Deployment whose pods need 5200m on nodes of which a pod gets 1000m.
func cappedBench(t *testing.T) (*bench, cluster.Workload) {
	b := newBench(t)
	b.profiles = map[string]string{
		"capacity": `{"base": "busy-hours", "busyHours": {"mostOfNodeBase": "Capacity"}}`,
	}
	b.nodes = []cluster.Node{{Name: "small", Allocatable: cluster.Amounts(4000, 16<<30), Capacity: cluster.Amounts(4800, 16<<30), Ready: true}}
	b.use["app"] = cluster.Amounts(3000, 200<<20)
	b.use["proxy"] = cluster.Amounts(1000, 200<<20)
	return b, b.deployment("web", 2, "app", "proxy")
}

func TestRecommender_podAboveShareOfNode_containersAreLoweredAndReplicasAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, web := cappedBench(t)
		b.autoscale("web", web).Recommender = "busy-hours"
		b.run(2 * time.Hour)
		app, proxy := b.advice("web", "app"), b.advice("web", "proxy")
		if sum := app.Target.CPU + proxy.Target.CPU; sum > 1000 || sum < 998 || app.Target.CPU != app.Uncapped.CPU*1000/(app.Uncapped.CPU+proxy.Uncapped.CPU) {
			t.Errorf("targets %v and %v, want 1000m in the proportion of %v and %v", app.Target, proxy.Target, app.Uncapped, proxy.Uncapped)
		}
		if !near(app.Uncapped.CPU, 3900) || !near(proxy.Uncapped.CPU, 1300) {
			t.Errorf("uncapped targets %v and %v, want those without the share", app.Uncapped, proxy.Uncapped)
		}
		check := func(when, status, reason string, texts ...string) {
			t.Helper()
			c := b.standing("web", v1alpha1.ConditionNeedsMoreReplicas)
			if string(c.Status) != status || c.Reason != reason {
				t.Errorf("%s: the condition is %+v", when, c)
			}
			for _, text := range texts {
				if !strings.Contains(c.Message, text) {
					t.Errorf("%s: %q is not in %q", when, text, c.Message)
				}
			}
		}
		check("two live pods", watcher.True, v1alpha1.ReasonAboveNodeShare, "the pods of Deployment web need a CPU request of 5",
			"but profile busy-hours allows at most 1 for a pod, which is 25 % of the allocatable CPU (4) of the smallest node.", "With 11 replicas instead of 2,")
		b.scales = map[cluster.Workload]cluster.Scale{web: {Known: true, Replicas: 4}}
		b.run(time.Hour)
		check("a scale of 4", watcher.True, v1alpha1.ReasonAboveNodeShare, "With 22 replicas instead of 4,")
		changed := *b.autoscalers[0]
		changed.Recommender = "capacity"
		b.autoscalers[0] = &changed
		b.run(time.Hour)
		check("a share of capacity", watcher.True, v1alpha1.ReasonAboveNodeShare, "allows at most 1200m for a pod, which is 25 % of the CPU capacity (4800m) of the smallest node.", "With 18 replicas instead of 4,")
		pods := b.pods
		b.pods = nil
		b.run(time.Hour)
		check("after a restart without pods", watcher.True, v1alpha1.ReasonAboveNodeShare, "With 18 replicas instead of 4,")
		b.pods = pods
		b.nodes[0].Capacity = cluster.Amounts(32000, 64<<30)
		b.run(time.Hour)
		check("after larger nodes", "", "")
	})
}

func TestRecommender_podOfDaemonSetOrJobAboveShareOfNode_replicasAreNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range [][3]string{{"apps", "DaemonSet", "A DaemonSet runs one pod per node"}, {"batch", "Job", "A Job has no number of replicas"}} {
			b, web := cappedBench(t)
			other := web
			other.Group, other.Kind = kind[0], kind[1]
			for _, p := range b.pods {
				p.Top, p.Controller = other, other
			}
			b.autoscale("web", other).Recommender = "busy-hours"
			b.run(time.Hour)
			c := b.standing("web", v1alpha1.ConditionNeedsMoreReplicas)
			if c.Status != watcher.False || c.Reason != v1alpha1.ReasonReplicasFixed || !strings.Contains(c.Message, kind[2]) || strings.Contains(c.Message, "instead of") {
				t.Errorf("%s: the condition is %+v", kind[1], c)
			}
		}
	})
}

// While recommendations do not decrease, and while all nodes are cordoned, the share of the node holds, too.
func TestRecommender_heldRecommendation_staysWithinTheShareOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, web := cappedBench(t)
		b.autoscale("web", web).Recommender = "busy-hours"
		b.run(2 * time.Hour)
		b.remembered = newBenchHistories() // the model state is lost, so recommendations do not decrease
		check := func(when string) {
			t.Helper()
			if sum := b.advice("web", "app").Target.CPU + b.advice("web", "proxy").Target.CPU; sum > 1000 {
				t.Errorf("%s: the sum is %dm, more than a quarter of the node", when, sum)
			}
		}
		b.run(time.Hour)
		check("after the model state was lost")
		b.nodes[0].Cordoned = true
		b.run(time.Hour)
		check("after a restart while the node is cordoned")
	})
}
