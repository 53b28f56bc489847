// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rescue"
)

// initWorld has a pod that cannot start: its init container is OOM-killed at its limit of 64 MiB, and nothing else has a recommendation yet.
func initWorld(mode cluster.Mode, need int64) (World, Budget) {
	w, b := podLevelWorld(mode, cluster.Amounts(100, 100<<20), cluster.Resources{}, cluster.Resources{})
	b.Rescue = rescue.ByEviction
	p, a := w.Governed[0].Pods[0], w.Governed[0].Autoscaler
	small := cluster.Amounts(10, 64<<20)
	p.PodLevel, p.Phase, p.Ready, p.Started, p.ReadySince = nil, cluster.Pending, false, time.Time{}, time.Time{}
	p.Containers = append(p.Containers, cluster.Container{
		Name: "setup", Role: cluster.Init, Requests: small, Limits: small,
		Exit: &cluster.Exit{OOM: true, Now: true, Kills: 1, Started: noon.Add(-time.Minute), Finished: noon.Add(-time.Second)},
	})
	target := cluster.Amounts(10, need)
	a.Advice = []cluster.Advice{{Container: "setup", Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}}}
	w.Nodes, w.Pods = []cluster.Node{{Name: "n", Ready: true, Allocatable: cluster.Amounts(1000, 1<<30)}}, w.Governed[0].Pods
	w.Ledger = ledger.New()
	return w, b
}

func TestPlan_initContainerIsKilled_podIsEvictedForTheReplacement(t *testing.T) {
	for mode, want := range map[cluster.Mode]decision.Act{
		cluster.Recreate: decision.Evict, cluster.InPlaceOrRecreate: decision.Evict, cluster.InPlace: decision.Leave, cluster.Initial: decision.Leave,
	} {
		w, b := initWorld(mode, 300<<20)
		if d := Plan(noon, w, b)[0]; d.Do != want || want == decision.Evict && d.Reason.Container != "setup" {
			t.Errorf("%s: %s because %s", mode, d.Do, d.Reason)
		}
	}
}

// The replacement is larger because of its init container, and fits on no node.
func TestPlan_initContainerNeedsMoreThanANodeHas_podIsNotEvicted(t *testing.T) {
	w, b := initWorld(cluster.Recreate, 2<<30)
	b.MustFit = true
	if d := Plan(noon, w, b)[0]; d.Do != decision.Leave || d.Reason.Code != decision.NoNodeFits {
		t.Errorf("%s because %s", d.Do, d.Reason)
	}
}

// The webhook did not size the replacement, and it is killed too: the next eviction waits.
func TestPlan_replacementHasNoMoreMemoryForItsInitContainer_evictionBacksOff(t *testing.T) {
	w, b := initWorld(cluster.Recreate, 300<<20)
	p, a := w.Governed[0].Pods[0], w.Governed[0].Autoscaler
	d := Plan(noon, w, b)[0]
	w.Ledger.Done(noon, ledger.Attempt{Pod: p, Autoscaler: a.Key, Do: d.Do, With: d.With, Rescue: true, Newest: p.Created})
	next := *p
	next.Name, next.UID, next.Created = "cart-1", "2", noon.Add(30*time.Second)
	w.Governed[0].Pods = []*cluster.Pod{&next}
	w.Pods = w.Governed[0].Pods
	if d := Plan(noon.Add(time.Minute), w, b)[0]; d.Do != decision.Leave || d.Reason.Code != decision.BackingOff {
		t.Errorf("%s because %s", d.Do, d.Reason)
	}
}
