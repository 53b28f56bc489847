// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"log/slog"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const statesPath = "/apis/podfit.dev/v1alpha1/updatestates"

func TestWorld_revertedSize_appliesUntilTheCooldownEnds(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(statesPath, `{"metadata":{"namespace":"shop","name":"broken"},"spec":{"target":7},"status":{"canary":{"phase":"Held","before":"x"}}}`)
	f.Apply(statesPath, `{"metadata":{"namespace":"shop","name":"watched"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}},
		"status":{"canary":{"phase":"Watching","after":[{"container":"app","requests":{"cpu":"100m"}}]}}}`)
	w := startWorld(t, f, Options{Held: true, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	now := kubetest.At(t, "2026-03-02T12:00:00Z")
	a := &cluster.Autoscaler{Canary: cluster.Canary{On: true}, Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, 0)}}}}
	target := func() int64 { return w.Held(a, top, now).Advice[0].Target.CPU }
	if got := target(); got != 100 {
		t.Errorf("target %d while the canary is watched", got)
	}
	f.Apply(statesPath, `{"metadata":{"namespace":"shop","name":"watched"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}},
		"status":{"canary":{"phase":"Held","untilTime":"2026-03-03T12:00:00.000000Z","cause":"OOMKilled","reverts":1,
		"before":[{"container":"app","requests":{"cpu":"1"},"memoryLimit":"2Gi"}],"after":[{"container":"app","requests":{"cpu":"100m"}}]}}}`)
	kubetest.Eventually(t, "the previous size applies", func() bool { return target() == 1000 })
	if got := w.Held(a, top, now).Advice[0].MemoryLimit; got != 2<<30 {
		t.Errorf("memory limit %d", got)
	}
	if got := w.Held(a, top, now.Add(25*time.Hour)).Advice[0].Target.CPU; got != 100 {
		t.Errorf("target %d after the cool-down", got)
	}
	off := *a
	off.Canary.On = false
	if w.Held(&off, top, now) != &off || w.Held(nil, top, now) != nil {
		t.Error("a VPA without canaries has a held recommendation")
	}
	f.Delete(statesPath, "shop/watched")
	kubetest.Eventually(t, "the deleted state holds nothing", func() bool { return target() == 100 })
}

func TestWorld_updateStatesForbidden_startsWithoutThem(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Reply("GET "+statesPath, 403, forbidden)
	w := startWorld(t, f, Options{Held: true})
	if !w.Synced() || len(w.Stale(time.Now())) > 0 {
		t.Errorf("synced %t, stale %v", w.Synced(), w.Stale(time.Now()))
	}
}
