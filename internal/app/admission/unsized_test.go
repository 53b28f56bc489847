// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
)

func TestAdmissionView_controllersThatDoNotExist_unsizedPodsAreCountedAndLogged(t *testing.T) {
	const slots = 64 // of a namespace
	api := httptest.NewServer(http.HandlerFunc(kubetest.SmallCluster))
	defer api.Close()
	clients, err := kube.ClientsFor(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	world, registry, out := watcher.NewWorld(clients, watcher.Options{}), prometheus.NewPedanticRegistry(), new(bytes.Buffer)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = process.WithWorld(ctx, world, func(ctx context.Context) error {
		defer stop()
		if err := world.WaitSynced(ctx); err != nil {
			return err
		}
		view := newClusterView(world, func(string) bool { return true }, webhook.NewMetrics(registry), slog.New(slog.NewTextHandler(out, nil)))
		serving, end := context.WithCancel(ctx)
		defer end()
		passed := make(chan bool, slots+1)
		var all sync.WaitGroup
		for range slots + 1 {
			all.Go(func() {
				p := view.Project(serving, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "none", Controller: new(true),
				}}}})
				passed <- p.Top.IsZero()
			})
		}
		if !<-passed {
			t.Error("a pod got a topmost controller that does not exist")
		}
		end() // the others wait no longer
		all.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `
		# HELP podfit_admission_controller_unsized_pods_total Number of pods that were admitted unchanged because their controller was not known, by reason: owner unknown when it did not become known in time, too many waiting when too many reviews waited for controllers.
		# TYPE podfit_admission_controller_unsized_pods_total counter
		podfit_admission_controller_unsized_pods_total{reason="owner unknown"} 64
		podfit_admission_controller_unsized_pods_total{reason="too many waiting"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "podfit_admission_controller_unsized_pods_total"); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Count(text, "Pod admitted without its recommendation") != 1 || !strings.Contains(text, "namespace=shop") {
		t.Errorf("log:\n%s", text)
	}
}
