// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/surge"
)

// protected are the marks of a pod with an annotation against evictions.
var protected = &cluster.Marks{Protection: "karpenter.sh/do-not-disrupt: true"}

func TestCanary_firstPodIsProtected_anotherPodIsTheCanaryAndOthersFollow(t *testing.T) {
	c := newCanaries(t, 4, cluster.Recreate)
	first := c.w.Governed[0].Pods[0]
	first.Marks = protected
	for range 60 {
		c.pass(noCrash)
		c.tick()
	}
	if c.count() != 3 || len(c.writes) != 3 || slices.Contains(c.writes, "evict "+first.UID) {
		t.Errorf("%d pods have the new size after %q, want 3", c.count(), c.writes)
	}
}

// Without an annotation, the canary is evicted after a while. A protected one may wait without end.
func TestCanary_resizeOfProtectedPodWaits_anotherPodIsTheCanary(t *testing.T) {
	c := newCanaries(t, 4, cluster.InPlaceOrRecreate)
	c.w.Governed[0].Pods[0].Marks = protected
	c.defers = true
	c.pass(noCrash)
	c.defers = false
	if len(c.writes) != 1 || !strings.HasSuffix(c.writes[0], c.w.Governed[0].Pods[0].UID) {
		t.Fatalf("changes %q, want one of the first pod", c.writes)
	}
	for range 60 {
		c.tick()
		c.pass(noCrash)
	}
	if c.count() != 4 || len(c.writes) != 4 || slices.ContainsFunc(c.writes, func(w string) bool { return !strings.HasPrefix(w, "resize ") }) {
		t.Errorf("%d pods have the new size after %q, want 4 after 4 resizes", c.count(), c.writes)
	}
}

// A protected pod is not replaced by a surge. Another pod of its workload is.
func TestPlan_protectedPodIsToBeSurged_siblingIsSurged(t *testing.T) {
	w, a := shrinking(3)
	a.Mode, a.MinReplicas = cluster.Recreate, 1
	w.Surges = &surge.State{}
	b := DefaultBudget()
	b.Mover = surge.BySurge
	pods := w.Governed[0].Pods
	for _, p := range pods {
		p.Top, p.Controller.Kind = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, "ReplicaSet"
		w.Scales[p.Controller] = cluster.Scale{Known: true, Replicas: 3}
	}
	before := firstSurged(Plan(noon, w, b))
	if before == "" {
		t.Fatal("no pod is surged")
	}
	for _, p := range pods {
		if p.Name == before {
			p.Marks = protected
		}
	}
	ds := Plan(noon, w, b)
	if after := firstSurged(ds); after == "" || after == before {
		t.Errorf("pod %q is surged, want another one than %q", after, before)
	}
	if d := decisionOf(ds, before); d.Reason.Code != decision.Protected {
		t.Errorf("%s: %s, want Protected", before, d.Reason)
	}
}

func firstSurged(ds []decision.Decision) string {
	i := slices.IndexFunc(ds, func(d decision.Decision) bool { return d.Do == decision.Surge })
	if i < 0 {
		return ""
	}
	return ds[i].Pod.Name
}

// Whatever the API server answers, in any world, with pods that are down, full nodes and quotas.
func TestPass_anyWorld_endsNoProtectedPod(t *testing.T) {
	var left, resized, ended int
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawWorld, drawBusyWorld, drawFullNodes, drawFullNodesWithCrashes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		for _, g := range w.Governed {
			for _, p := range g.Pods {
				if rapid.Bool().Draw(t, "protected") {
					p.Marks = protected
				}
			}
		}
		now := noon
		for range rapid.IntRange(1, 4).Draw(t, "passes") {
			p := Begin(now, w, b)
			p.Learn()
			_, down := outcomes(t, p)
			for pod, d := range down {
				switch {
				case d.Do == decision.Resize && pod.IsProtected():
					resized++
				case d.Do != decision.Resize && pod.IsProtected() && pod.Node != "" && !b.UpstreamRules:
					t.Fatalf("%s of %s: %s", d.Do, pod.Key, d.Reason)
				case d.Do != decision.Resize:
					ended++
				}
			}
			for _, d := range p.Decisions() {
				if d.Reason.Code == decision.Protected {
					left++
				}
			}
			drawChanges(t, now, w, down)
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "later"))
		}
	})
	if left == 0 || resized == 0 || ended == 0 {
		t.Errorf("%d protected pods are left, %d resized, %d others ended; want some of each", left, resized, ended)
	}
}
