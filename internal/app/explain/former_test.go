// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

func TestFormerOf_storedHistories_theOneThatFitsIsOffered(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	named := func(name string) cluster.Workload {
		return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	}
	stored := checkpoint.Stored{Checkpoints: map[checkpoint.Key]usage.Checkpoint{}}
	store := func(w cluster.Workload, first, last time.Duration, containers ...string) {
		for _, c := range containers {
			stored.Checkpoints[checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: w.Name}, Container: c}] = usage.Checkpoint{
				Workload: w, FirstSample: noon.Add(-first), LastSample: noon.Add(-last)}
		}
	}
	const hour = time.Hour
	store(named("cart"), 2*hour, 0, "app", "proxy")
	store(named("basket"), 90*hour, 2*hour, "app", "proxy")
	store(named("shorter"), 30*hour, 2*hour, "app", "proxy")
	store(named("one-container"), 200*hour, 2*hour, "app")
	store(named("long-gone"), 200*hour, 50*hour, "app", "proxy")
	store(named("exists"), 200*hour, 0, "app", "proxy")
	store(cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "set"}, 200*hour, 2*hour, "app", "proxy")
	scale := func(w cluster.Workload) cluster.Scale {
		return cluster.Scale{Known: w.Name == "exists", Gone: w.Name != "exists" && w.Name != "cart"}
	}
	for want, a := range map[explanation.Former]*cluster.Autoscaler{
		{Workload: named("basket"), Age: 88 * hour}: {Target: named("cart")},
		{Workload: named("exists"), Exists: true}:   {Target: named("cart"), Rules: cluster.ChangeRules{Settings: cluster.Settings{Continues: "exists"}}},
		{}: {Target: named("cart"), Rules: cluster.ChangeRules{Settings: cluster.Settings{Continues: "basket"}}},
	} {
		if got := formerOf(&explanation.Input{Subject: explanation.Subject{Autoscaler: a}}, stored, scale); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	old := named("exists") // it has older usage than the others
	if got := formerOf(&explanation.Input{Subject: explanation.Subject{Autoscaler: &cluster.Autoscaler{Target: old}}}, stored, scale); got != (explanation.Former{}) {
		t.Errorf("%+v is offered to a workload that is older", got)
	}
}
