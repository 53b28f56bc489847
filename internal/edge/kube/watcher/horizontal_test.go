// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const hpasPath = "/apis/autoscaling/v2/horizontalpodautoscalers"

func hpaJSON(name, target, metric string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"u-%s"},"spec":{"maxReplicas":5,
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%q},"metrics":[%s]}}`, name, name, target, metric)
}

const cpuUtilization = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}`

func TestWorld_horizontalPodAutoscalers_arePartOfTheGoverningAutoscaler(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(hpasPath, hpaJSON("b", "web", cpuUtilization))
	f.Apply(hpasPath, hpaJSON("other", "other", cpuUtilization))
	f.Apply(hpasPath, hpaJSON("broken", "web", `{"type":"Resource"}`))
	w := startWorld(t, f, Options{HPAs: true})
	target := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	names := func() string {
		var out []string
		before := w.Governing(target).Horizontal
		for _, a := range w.Snapshot().Autoscalers {
			after := w.Governing(target)
			if a.Key == after.Key && len(before) == len(after.Horizontal) && len(a.Horizontal) != len(before) { // no HPA has arrived in between
				t.Errorf("the snapshot has HPAs %v, the governing autoscaler %v", a.Horizontal, before)
			}
		}
		for _, h := range before {
			out = append(out, h.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "b" {
		t.Errorf("HPAs %q", got)
	}
	f.Apply(hpasPath, hpaJSON("a", "web", cpuUtilization))
	kubetest.Eventually(t, "a second HPA arrives", func() bool { return names() == "a b" })
	f.Apply(hpasPath, hpaJSON("b", "other", cpuUtilization))
	kubetest.Eventually(t, "an HPA has another target", func() bool { return names() == "a" })
	f.Delete(hpasPath, "shop/a")
	kubetest.Eventually(t, "the last HPA is deleted", func() bool { return names() == "" })
	if len(w.horizontalOf.of) != 1 {
		t.Errorf("deleted HPAs are kept, of %d workloads", len(w.horizontalOf.of))
	}
}

// Upstream's roles grant no right to read HPAs, and API servers may lack autoscaling/v2. podfit runs as upstream does.
func TestWorld_horizontalPodAutoscalersNotReadable_runsWithoutThem(t *testing.T) {
	for code, body := range map[int]string{
		403: forbidden,
		404: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
	} {
		f := kubetest.NewFakeAPI(t)
		f.ApplyShop()
		f.Reply("GET "+hpasPath, code, body)
		var text logText
		w := startWorld(t, f, Options{HPAs: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
		if a := w.Autoscalers(); !w.Synced() || len(a) == 0 || len(a[0].Horizontal) > 0 {
			t.Errorf("%d: synced %t, autoscalers %+v", code, w.Synced(), a)
		}
		kubetest.Eventually(t, "the list is retried", func() bool { return f.Refusals("GET "+hpasPath) > 2 })
		if n := strings.Count(text.String(), "podfit runs without it\" resource=horizontalpodautoscalers impact="); n != 1 || !strings.Contains(text.String(), "remedy=") {
			t.Errorf("%d: logged %d times, want 1:\n%s", code, n, text.String())
		}
	}
}

func TestWorld_manyHorizontalPodAutoscalersOfOneWorkload_areBounded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for i := range maxHPAs + 5 {
		f.Apply(hpasPath, hpaJSON(fmt.Sprintf("h%02d", i), "web", cpuUtilization))
	}
	w := startWorld(t, f, Options{HPAs: true})
	a := w.Governing(cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"})
	if len(a.Horizontal) != maxHPAs || a.Horizontal[0].Name != "h00" {
		t.Errorf("got %d HPAs", len(a.Horizontal))
	}
}
