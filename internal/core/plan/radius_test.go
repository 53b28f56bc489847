// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rollout"
)

func TestPlan_changesPerHourAreLimited_waitsAndGoesOnAfterARestart(t *testing.T) {
	for name, set := range map[string]func(*Budget){
		"namespace": func(b *Budget) { b.NamespaceShare = 0.25 },
		"cluster":   func(b *Budget) { b.ClusterShare = 0.25 },
	} {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(8)
			a.MinReplicas = 1
			b := DefaultBudget()
			b.Tolerance = 1
			set(&b)
			w.Requested = radius.RequestedBy(w.Governed[0].Pods)
			p := Begin(noon, w, b)
			acts := evictions(p)
			if len(acts) != 2 {
				t.Fatalf("%d evictions, want a quarter of 8", len(acts))
			}
			for _, d := range p.Decisions()[2:] {
				if d.Reason.Code != decision.BlastRadius || d.Reason.Have != 38 || d.Reason.Want != 25 {
					t.Errorf("%s: %s", d.Pod.Name, d.Reason)
				}
			}
			p.Done(acts[0])
			p.Refused(acts[1], decision.Refusal{Kind: decision.OutcomeIsUnknown})
			w.Governed[0].Pods = w.Governed[0].Pods[2:]
			stored := w.Ledger.Export(b.Delays)
			for i := range stored {
				stored[i].Replacements = nil // they exist
			}
			w.Ledger = ledger.New()
			w.Ledger.Restore(noon.Add(time.Minute), stored)
			at := func(d time.Duration) int { return len(evictions(Begin(noon.Add(d), w, b))) }
			if got := at(10 * time.Minute); got != 0 {
				t.Errorf("%d evictions in the same hour", got)
			}
			for _, d := range Plan(noon.Add(10*time.Minute), w, b) {
				if want := noon.Add(time.Hour + time.Minute); d.Reason.Code != decision.BlastRadius || !d.Reason.Until.Equal(want) {
					t.Errorf("%s: %s", d.Pod.Name, d.Reason)
				}
			}
			if got := at(62 * time.Minute); got == 0 {
				t.Error("no eviction in the next hour")
			}
		})
	}
}

func TestPlan_changesAreNotLimited_recordsNone(t *testing.T) {
	w, _ := shrinking(3)
	p := Begin(noon, w, DefaultBudget())
	for _, d := range evictions(p) {
		p.Done(d)
	}
	if len(w.Ledger.Changes()) > 0 {
		t.Errorf("changes %v", w.Ledger.Changes())
	}
}

// tenants returns a cluster with two namespaces with eight pods each that should change, and a limit for the cluster.
func tenants() (World, Budget) {
	w, a := shrinking(8)
	a.MinReplicas = 1
	other := *a
	other.Namespace, other.Target.Namespace = "zoo", "zoo"
	g := cluster.Governed{Autoscaler: &other}
	for _, p := range w.Governed[0].Pods {
		q := *p
		q.Namespace, q.UID, q.Controller.Namespace, q.Top.Namespace = "zoo", "zoo-"+q.UID, "zoo", "zoo"
		g.Pods = append(g.Pods, &q)
	}
	w.Governed = append(w.Governed, g)
	w.Scales[other.Target] = cluster.Scale{Known: true, Replicas: 8}
	b := DefaultBudget()
	b.Tolerance, b.ClusterShare = 1, 0.25
	return w, b
}

func allPods(w World) (out []*cluster.Pod) {
	for _, g := range w.Governed {
		out = append(out, g.Pods...)
	}
	return out
}

func evictionsIn(p *Pass, namespace string) int {
	n := 0
	for _, d := range evictions(p) {
		if d.Pod.Namespace == namespace {
			n++
		}
	}
	return n
}

// The requests of pods that do not run, and requests that the kubelet has not granted, are not limited by any node. A tenant may choose
// them as he likes.
func TestPlan_tenantAsksForHugeRequests_limitOfTheClusterHolds(t *testing.T) {
	const huge = math.MaxInt64 - 1
	for name, change := range map[string]func(*cluster.Pod){
		"unscheduled":        func(p *cluster.Pod) { p.Node, p.Phase = "", cluster.Pending },
		"bound by its owner": func(p *cluster.Pod) { p.Node, p.Phase = "nowhere", cluster.Pending },
		"a resize that no node can do": func(p *cluster.Pod) {
			p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(10, 1<<20)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := tenants()
			pods := allPods(w)
			for i := range 3 {
				p := *pods[0]
				p.Namespace, p.UID, p.Containers = "evil", fmt.Sprint("evil-", i), []cluster.Container{{Name: "app", Requests: cluster.Amounts(huge/1000, huge)}}
				change(&p)
				pods = append(pods, &p)
			}
			w.Requested = radius.RequestedBy(pods)
			if got := len(evictions(Begin(noon, w, b))); got != 4 {
				t.Errorf("%d evictions, want a quarter of 16", got)
			}
		})
	}
}

// A tenant whose unscheduled pod is replaced, whose pods are changed again and again, or who edits his UpdateState, uses up his own share at most.
func TestPlan_tenantUsesUpMoreThanHeHas_othersAreChanged(t *testing.T) {
	evil := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "evil", Name: "x"}
	for name, amount := range map[string]int64{"much": 1 << 40, "overflows": math.MaxInt64 / 2} {
		t.Run(name, func(t *testing.T) {
			w, b := tenants()
			pods := allPods(w)
			own := *pods[0]
			own.Namespace, own.UID = "evil", "evil"
			w.Requested = radius.RequestedBy(append(pods, &own))
			l := ledger.New()
			list := []rollout.Change{{At: noon.Add(-2 * time.Minute), Requests: cluster.Amounts(amount, amount)}, {At: noon.Add(-time.Minute), Requests: cluster.Amounts(amount, amount)}}
			l.Restore(noon, []ledger.State{{Workload: evil, Changes: list}})
			w.Ledger = l
			if got := len(evictions(Begin(noon, w, b))); got != 3 {
				t.Errorf("%d evictions, want 3: a quarter of 17 pods, without the one of the tenant", got)
			}
		})
	}
	w, b := tenants()
	w.Requested = radius.RequestedBy(allPods(w))
	p := w.Governed[0].Pods[0]
	p.Node, p.Phase, p.Containers[0].Requests = "", cluster.Pending, cluster.Amounts(1<<40, 1<<50)
	pass := Begin(noon, w, b)
	if evictionsIn(pass, "shop") == 0 || evictionsIn(pass, "zoo") == 0 && len(evictions(pass)) < 4 {
		t.Errorf("%d evictions", len(evictions(pass)))
	}
	for _, d := range evictions(pass) {
		if d.Pod == p {
			pass.Done(d)
		}
	}
	w.Governed = w.Governed[1:]
	if got := len(evictions(Begin(noon.Add(10*time.Minute), w, b))); got == 0 {
		t.Error("the replacement of an unscheduled pod uses up the share of the cluster")
	}
}

// Namespaces whose names come first do not use up the share of the cluster again and again.
func TestPlan_shareOfTheCluster_namespacesTakeTurns(t *testing.T) {
	w, b := tenants()
	w.Requested = radius.RequestedBy(allPods(w))
	now, changed := noon, map[string]int{}
	for range 4 {
		pass := Begin(now, w, b)
		for _, d := range evictions(pass) {
			pass.Done(d)
			changed[d.Pod.Namespace]++
		}
		var replaced []decision.Decision // with the new size
		for _, d := range evictions(pass) {
			q := *d.Pod
			q.Created = now
			replaced = append(replaced, decision.Decision{Pod: &q})
		}
		w.Ledger.Learn(now, ledger.View{}, replaced)
		now = now.Add(62 * time.Minute)
	}
	if changed["shop"] != 8 || changed["zoo"] != 8 {
		t.Errorf("changes %v, want the same number", changed)
	}
}
