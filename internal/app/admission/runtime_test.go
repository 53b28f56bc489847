// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/kubetest"
)

const javaPod = `{"metadata":{"namespace":"shop",NAME"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"u","controller":true}]},
	"spec":{"containers":[{"name":"app","image":"shop/web:1","command":["sh","-c"],"args":["exec java -Xmx2g -jar app.jar"],"resources":{"requests":{"cpu":"500m","memory":"3Gi"}}}]}}`

// A SizingProfile with guards, from the watch to the patch of a new pod of a JVM. The updater, which reads the same world, computes the same
// size for a running pod. A VPA without the profile keeps upstream's size, for the same pod.
func TestReview_profileWithRuntimeGuards_newAndRunningPodsOfAJVMGetTheGuardedSize(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	vpa := func(spec, annotations string) {
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1"`+annotations+`},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`+spec+`},
			"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"995m","memory":"1Gi"}}]}}}`)
	}
	f.Apply("/apis/podfit.dev/v1alpha1/sizingprofiles", `{"metadata":{"name":"java"},"spec":{"runtimeGuards":["cpu","memory"]}}`)
	f.Apply(kubetest.PodsPath, strings.Replace(javaPod, "NAME", `"name":"web-1-java","uid":"p1",`, 1))
	clients, err := kube.ClientsFor(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	world := watcher.NewWorld(clients, watcher.Options{Pods: watcher.AllPods, Profiles: true})
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); world.Wait() })
	world.Start(ctx)
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := world.WaitSynced(waiting); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	handler := webhook.NewHandler(newClusterView(world, func(string) bool { return true }, metrics, log), webhook.Options{}, metrics, log)
	for _, c := range []struct{ name, spec, annotations, cpu, memory, environment string }{
		{"no profile", "", "", "995m", "1Gi", ""},
		{"a profile with guards", `,"recommenders":[{"name":"java"}]`, "", "1001m", "2Gi", ""},
		{"switched off", `,"recommenders":[{"name":"java"}]`, `,"annotations":{"podfit.dev/runtime-guards":"none"}`, "995m", "1Gi", ""},
		{"only annotations", "", `,"annotations":{"podfit.dev/runtime-guards":"memory","podfit.dev/inject-cpu-count":"request"}`, "995m", "2Gi",
			`{"name":"JAVA_TOOL_OPTIONS","value":"-XX:ActiveProcessorCount=1"}`},
	} {
		vpa(c.spec, c.annotations)
		patch := ""
		kubetest.Eventually(t, c.name+": the patch has the expected size", func() bool {
			patch = string(answer(t, handler, kubetest.PodReview(strings.Replace(javaPod, "NAME", "", 1))).Patch)
			return strings.Contains(patch, `requests/cpu","value":"`+c.cpu+`"`) && strings.Contains(patch, `requests/memory","value":"`+c.memory+`"`)
		})
		if !strings.Contains(patch, c.environment) || strings.Contains(patch, "/env") != (c.environment != "") {
			t.Errorf("%s: %s", c.name, patch)
		}
		snapshot := world.Snapshot()
		found := false
		for _, p := range snapshot.Pods {
			if p.Name != "web-1-java" {
				continue
			}
			found = true
			got := policy.Fit(snapshot.Autoscalers[0], policy.Limits{}, p)[0].Requests
			if got.CPU != map[string]int64{"995m": 995, "1001m": 1001}[c.cpu] || cluster.Format(cluster.Memory, got.Memory) != c.memory {
				t.Errorf("%s: the updater computes %v", c.name, got)
			}
		}
		if !found {
			t.Errorf("%s: the running pod is not known", c.name)
		}
	}
}
