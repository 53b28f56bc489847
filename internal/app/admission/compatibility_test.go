// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/kubetest"
	"podfit.dev/podfit/test/rowtest"
)

// as returns the configuration with the flags of a command line, and with what --compatibility makes of the others.
func as(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("admission-controller", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	return c
}

// The largest node has 4 cores, and the target is 8.
func TestCompatibility_recommendationFitsOnNoNode_sizeOfNewPodsIsThatOfEachValue(t *testing.T) {
	rowtest.Both(t, "pods larger than any node", rowtest.Outcomes{Podfit: "4", Upstream: "8"}, func(t *testing.T, args ...string) string {
		return strings.Join(patchedCPU(t, "app", "8", strings.Replace(javaPod, "NAME", "", 1), args...), " ")
	})
}

// The regular container takes 500m of the 4 cores of the node. Every recommender may recommend a size for a sidecar.
func TestCompatibility_sidecarHasRecommendation_sizeOfNewPodsIsThatOfEachValue(t *testing.T) {
	pod := strings.NewReplacer("NAME", "", `"containers":`, `"initContainers":[{"name":"mesh","restartPolicy":"Always","resources":{"requests":{"cpu":"30m"}}}],"containers":`).Replace(javaPod)
	rowtest.Both(t, "native sidecars", rowtest.Outcomes{Podfit: "3500m", Upstream: ""}, func(t *testing.T, args ...string) string {
		return strings.Join(patchedCPU(t, "mesh", "8", pod, args...), " ")
	})
}

// The regular container requests 500m, which bounds what an init container gets.
func TestCompatibility_initContainerHasRecommendation_sizeOfNewPodsIsThatOfEachValue(t *testing.T) {
	pod := strings.NewReplacer("NAME", "", `"containers":`, `"initContainers":[{"name":"migrate","resources":{"requests":{"cpu":"30m"}}}],"containers":`).Replace(javaPod)
	rowtest.Both(t, "init containers", rowtest.Outcomes{Podfit: "500m", Upstream: ""}, func(t *testing.T, args ...string) string {
		return strings.Join(patchedCPU(t, "migrate", "8", pod, args...), " ")
	})
}

// The container needs half of the pod-level request. Upstream does not change that.
func TestCompatibility_podHasPodLevelResources_sizeOfNewPodsIsThatOfEachValue(t *testing.T) {
	pod := strings.NewReplacer("NAME", "", `"containers":`, `"resources":{"requests":{"cpu":"2"}},"containers":`).Replace(javaPod)
	rowtest.Both(t, "pod-level resources", rowtest.Outcomes{Podfit: "1 1", Upstream: "1"}, func(t *testing.T, args ...string) string {
		return strings.Join(patchedCPU(t, "app", "1", pod, args...), " ")
	})
}

// patchedCPU returns the CPU requests that the webhook sets on a new pod of a VPA that recommends a target for a container.
func patchedCPU(t *testing.T, container, target, pod string, args ...string) (got []string) {
	t.Helper()
	value := regexp.MustCompile(`requests/cpu","value":"(\w+)"`)
	synctest.Test(t, func(t *testing.T) {
		f := kubetest.NewLocalAPI(t)
		f.ApplyShop()
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
			"status":{"recommendation":{"containerRecommendations":[{"containerName":"`+container+`","lowerBound":{"cpu":"500m","memory":"1Gi"},
			"target":{"cpu":"`+target+`","memory":"1Gi"},"upperBound":{"cpu":"9","memory":"2Gi"}}]}}}`)
		f.ApplyNode("n", "4", "16Gi")
		clients, err := kube.ClientsFor(kubetest.LocalConfig(f))
		if err != nil {
			t.Fatal(err)
		}
		c, log, metrics := as(t, args...), slog.New(slog.DiscardHandler), webhook.NewMetrics(prometheus.NewRegistry())
		world := watcher.NewWorld(clients, c.Watched(watcher.Options{Nodes: true, Limits: true}))
		options := c.handlerOptions(world)
		options.Nodes = &nodeTable{options: c.NodeFit.Options(), watch: world}
		handler := webhook.NewHandler(newClusterView(world, c.Serves, metrics, log), options, metrics, log)
		err = process.WithWorld(t.Context(), world, func(ctx context.Context) error {
			if err := world.WaitSynced(ctx); err != nil {
				return err
			}
			synctest.Wait() // owners of pods are read after the lists
			patch := string(answer(t, handler, kubetest.PodReview(pod)).Patch)
			for _, m := range value.FindAllStringSubmatch(patch, -1) {
				got = append(got, m[1])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return got
}
