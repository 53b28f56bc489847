// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/test/kubetest"
)

const (
	namespacesPath = "/api/v1/namespaces"
	configMapsPath = "/api/v1/configmaps"
	freezePath     = "/api/v1/namespaces/kube-system/configmaps"
)

var freezeSwitch = cluster.Key{Namespace: "kube-system", Name: "podfit-freeze"}

// frozenBy returns which switch stops changes of a VPA of namespace shop; "" if none does.
func frozenBy(w *World) string {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	if all := w.Autoscalers(); len(all) > 0 {
		a = all[0]
	}
	by, _ := rollout.Frozen(w.Rules(a))
	return by
}

func TestWorld_freezeOfEachScope_isSeen(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{Rules: true, FreezeSwitch: freezeSwitch})
	if by := frozenBy(w); by != "" {
		t.Fatalf("frozen by %s without a switch", by)
	}
	after := func(what, want string, change func()) {
		t.Helper()
		change()
		kubetest.Eventually(t, what, func() bool { return strings.HasPrefix(frozenBy(w), want) && (want != "" || frozenBy(w) == "") })
	}
	after("the ConfigMap freezes", "ConfigMap kube-system/podfit-freeze (incident 7)", func() {
		f.Apply(configMapsPath, `{"metadata":{"namespace":"kube-system","name":"podfit-freeze"},"data":{"freeze":"true","reason":"incident 7"}}`)
	})
	after("the ConfigMap freezes no more", "", func() {
		f.Apply(configMapsPath, `{"metadata":{"namespace":"kube-system","name":"podfit-freeze"},"data":{"freeze":"false"}}`)
	})
	after("the ConfigMap freezes again", "ConfigMap", func() {
		f.Apply(configMapsPath, `{"metadata":{"namespace":"kube-system","name":"podfit-freeze"},"data":{"freeze":"true"}}`)
	})
	after("the ConfigMap is deleted", "", func() { f.Delete(configMapsPath, "kube-system/podfit-freeze") })
	after("the namespace is frozen", "annotation podfit.dev/freeze of namespace shop", func() {
		f.Apply(namespacesPath, `{"metadata":{"name":"shop","annotations":{"podfit.dev/freeze":"true"}}}`)
	})
	after("the namespace is not frozen", "", func() { f.Apply(namespacesPath, `{"metadata":{"name":"shop"}}`) })
}

func TestWorld_settingsOfTheNamespace_areDefaults(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{Rules: true, Profiles: true})
	settings := func() cluster.Settings { return w.Autoscalers()[0].Rules.Settings }
	if s := settings(); s != (cluster.Settings{}) {
		t.Fatalf("settings %+v without annotations", s)
	}
	f.Apply(namespacesPath, `{"metadata":{"name":"shop","annotations":{"podfit.dev/eviction-tolerance":"0.2","podfit.dev/min-change":"15%","podfit.dev/initial-delay":"24h",
		"podfit.dev/max-step":"50%","podfit.dev/memory-per-cpu":"2Gi-"}}}`)
	want := cluster.Settings{
		EvictionTolerance: cluster.Setting[float64]{Value: 0.2, Set: true}, MinChange: cluster.Setting[float64]{Value: 0.15, Set: true},
		InitialDelay: cluster.Setting[time.Duration]{Value: 24 * time.Hour, Set: true},
		MaxStep:      cluster.Setting[cluster.MaxStep]{Value: cluster.MaxStep{Percent: 50}, Set: true},
		MemoryPerCPU: cluster.Setting[cluster.MemoryPerCPU]{Value: cluster.MemoryPerCPU{Least: 2 << 30}, Set: true},
	}
	kubetest.Eventually(t, "the VPA has the settings of its namespace", func() bool { return settings() == want })
	web := w.Autoscalers()[0]
	if g := w.Governing(web.Target); g == nil || g.Rules.Settings != want {
		t.Errorf("governing %+v", g)
	}
	own := cluster.Settings{EvictionTolerance: cluster.Setting[float64]{Set: true}, MaxStep: cluster.Setting[cluster.MaxStep]{Set: true}}
	if got := own.Under(want); got.EvictionTolerance.Or(1) != 0 || got.MinChange != want.MinChange || got.MaxStep.Value != (cluster.MaxStep{}) || got.MemoryPerCPU != want.MemoryPerCPU {
		t.Errorf("%+v, want the VPA's own tolerance of 0 and no limit of steps", got)
	}
}

func TestWorld_namespacesAndConfigMapForbidden_runsWithoutThem(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Reply("GET "+namespacesPath, 403, forbidden)
	f.Reply("GET "+freezePath, 403, forbidden)
	var text logText
	w := startWorld(t, f, Options{Rules: true, FreezeSwitch: freezeSwitch, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if !w.Synced() || frozenBy(w) != "" || len(w.Stale(time.Now())) > 0 {
		t.Errorf("synced %t, frozen by %q, stale %v", w.Synced(), frozenBy(w), w.Stale(time.Now()))
	}
	for _, want := range []string{"whether the ConfigMap kube-system/podfit-freeze freezes the cluster", "whether a namespace has the annotation podfit.dev/freeze"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log does not contain %q:\n%s", want, text.String())
		}
	}
}

// A freeze must not end because the API server is unavailable, or because a right is taken away.
func TestWorld_rightIsLostDuringAFreeze_staysFrozen(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(configMapsPath, `{"metadata":{"namespace":"kube-system","name":"podfit-freeze"},"data":{"freeze":"true"}}`)
	w := startWorld(t, f, Options{Rules: true, FreezeSwitch: freezeSwitch})
	kubetest.Eventually(t, "the cluster is frozen", func() bool { return frozenBy(w) != "" })
	f.Reply("GET "+freezePath, 403, forbidden)
	f.Stop()
	f.Start()
	kubetest.Eventually(t, "the watch fails", func() bool {
		for _, s := range w.Health() {
			if s.Resource == "configmaps" && s.Err != nil {
				return true
			}
		}
		return false
	})
	if frozenBy(w) == "" {
		t.Error("not frozen any more")
	}
}

func TestWorld_onlyOneNamespaceIsWatched_selectsItByName(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w := NewWorld(clientsOf(f), Options{Namespace: "shop"})
	if got := w.namespaceNames(); got != "metadata.name=shop" {
		t.Errorf("selector %q", got)
	}
	w = NewWorld(clientsOf(f), Options{Ignored: []string{"a", "b"}})
	if got := w.namespaceNames(); got != "metadata.name!=a,metadata.name!=b" {
		t.Errorf("selector %q", got)
	}
}
