// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
)

func TestAdmissionView_controllersThatDoNotExist_unsizedPodsAreCountedAndLogged(t *testing.T) {
	const slots = 64 // of a namespace
	world, registry, out := watcher.NewWorld(smallCluster(t), watcher.Options{}), prometheus.NewPedanticRegistry(), new(bytes.Buffer)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := process.WithWorld(ctx, world, func(ctx context.Context) error {
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

// Only pods to which a VPA could apply wait for their controller, and count as unsized if it is not known.
func TestAdmissionView_noVPACanApply_podIsNotCountedAsUnsized(t *testing.T) {
	const known, unknown = "cart", "none"
	world := watcher.NewWorld(smallCluster(t), watcher.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := process.WithWorld(ctx, world, func(ctx context.Context) error {
		defer stop()
		if err := world.WaitSynced(ctx); err != nil {
			return err
		}
		for name, tt := range map[string]struct {
			namespace, controller string
			served                bool
			top                   bool // the topmost controller is found
			unsized               int
		}{
			"controller is known":       {namespace: "shop", controller: known, served: true, top: true},
			"controller is not known":   {namespace: "shop", controller: unknown, served: true, unsized: 1},
			"no controller":             {namespace: "shop", served: true},
			"namespace is not served":   {namespace: "shop", controller: unknown},
			"namespace without any VPA": {namespace: "other", controller: unknown, served: true},
		} {
			registry := prometheus.NewPedanticRegistry()
			view := newClusterView(world, func(string) bool { return tt.served }, webhook.NewMetrics(registry), slog.New(slog.DiscardHandler))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: "p"}}
			if tt.controller != "" {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: tt.controller, Controller: new(true)}}
			}
			if got := !view.Project(ctx, pod).Top.IsZero(); got != tt.top {
				t.Errorf("%s: topmost controller found %t, want %t", name, got, tt.top)
			}
			if got := unsized(t, registry); got != tt.unsized {
				t.Errorf("%s: %d unsized pods, want %d", name, got, tt.unsized)
			}
			target := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: known}
			if got := view.Governing(target) != nil; got != tt.served {
				t.Errorf("%s: VPA of %s found %t, want %t", name, target, got, tt.served)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unsized returns the number of pods that are counted as admitted unchanged.
func unsized(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != "podfit_admission_controller_unsized_pods_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			total += m.GetCounter().GetValue()
		}
	}
	return int(total)
}
