// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/surge"
)

func TestUnannounced_workloadNamespaceAndCluster_areHeld(t *testing.T) {
	web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	r := decision.Reason{Code: decision.NotAnnounced, Text: "x"}
	for name, c := range map[string]struct {
		u    ledger.Unannounced
		want bool
	}{
		"none":            {ledger.Unannounced{}, false},
		"workload":        {ledger.Unannounced{web: r}, true},
		"other workload":  {ledger.Unannounced{{Namespace: "shop", Name: "db"}: r}, false},
		"namespace":       {ledger.Unannounced{{Namespace: "shop"}: r}, true},
		"other namespace": {ledger.Unannounced{{Namespace: "bank"}: r}, false},
		"cluster":         {ledger.Unannounced{{}: r}, true},
	} {
		if got, held := c.u.Of(web); held != c.want || held && got != r {
			t.Errorf("%s: held %t with %v, want %t", name, held, got, c.want)
		}
	}
}

// heldPlan returns the decisions on a Deployment whose actions cannot be announced.
func heldPlan(mode cluster.Mode, change func(*World, *Budget)) []decision.Decision {
	w, b := announceWorld(mode)
	w.Unannounced = ledger.Unannounced{{Namespace: "shop"}: {Code: decision.NotAnnounced, Text: "x"}}
	change(&w, &b)
	return Plan(noon, w, b)
}

// announceWorld returns two pods of a Deployment with requests below their bounds.
func announceWorld(mode cluster.Mode) (World, Budget) {
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	g := cluster.Governed{Autoscaler: &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top, Mode: mode, Created: noon.AddDate(0, 0, -9),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(300, 200<<20), Target: cluster.Amounts(350, 250<<20), Upper: cluster.Amounts(900, 1<<30),
		}}},
	}}
	for _, name := range []string{"a", "b"} {
		g.Pods = append(g.Pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Top: top, Controller: rs, Node: "n", Phase: cluster.Running, QoS: cluster.Burstable,
			Ready: true, ReadySince: noon.Add(-time.Hour), Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 50<<20)}},
		})
	}
	return World{Governed: []cluster.Governed{g}, Scales: map[cluster.Workload]cluster.Scale{rs: {Known: true, Replicas: 2}}}, DefaultBudget()
}

// kill makes the first pod one that is OOM-killed again and again.
func kill(w *World, b *Budget) {
	b.Rescue = rescue.ByDeletion
	p := w.Governed[0].Pods[0]
	p.Ready = false
	p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, 60<<20)
	p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 5, Now: true, Started: noon.Add(-10 * time.Second), Finished: noon.Add(-time.Second)}
}

func TestPlan_actionsCannotBeAnnounced_onlyThoseThatMustBeAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		mode   cluster.Mode
		change func(*World, *Budget)
		want   decision.Act
	}{
		"eviction":            {cluster.Recreate, func(*World, *Budget) {}, decision.Leave},
		"resize":              {cluster.InPlaceOrRecreate, func(*World, *Budget) {}, decision.Resize},
		"surge":               {cluster.Recreate, func(w *World, b *Budget) { w.Surges, b.Mover = &surge.State{}, surge.BySurge }, decision.Leave},
		"OOM kills":           {cluster.Recreate, kill, decision.Evict},
		"OOM kills, in place": {cluster.InPlaceOrRecreate, kill, decision.Resize},
		"resize with a restart": {cluster.InPlaceOrRecreate, func(w *World, _ *Budget) {
			for _, p := range w.Governed[0].Pods {
				p.Containers[0].Restart = p.Containers[0].Restart.With(cluster.CPU)
			}
		}, decision.Leave},
		"resize of a canary": {cluster.InPlaceOrRecreate, func(w *World, _ *Budget) {
			w.Governed[0].Autoscaler.Canary = cluster.Canary{On: true, Watch: time.Hour}
		}, decision.Leave},
		"resize with a limited share": {cluster.InPlaceOrRecreate, func(w *World, b *Budget) {
			b.ClusterShare, w.Requested = 0.9, radius.RequestedBy(w.Governed[0].Pods)
		}, decision.Leave},
	} {
		t.Run(name, func(t *testing.T) {
			announced, b := announceWorld(c.mode)
			c.change(&announced, &b)
			if d := Plan(noon, announced, b)[0]; d.Do == decision.Leave {
				t.Fatalf("with announcements: %v %v", d.Do, d.Reason)
			}
			ds := heldPlan(c.mode, c.change)
			if ds[0].Do != c.want || c.want == decision.Leave && ds[0].Reason.Code != decision.NotAnnounced {
				t.Errorf("%v: %v, want %v", ds[0].Do, ds[0].Reason, c.want)
			}
		})
	}
}
