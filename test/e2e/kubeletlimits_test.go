// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// TestUpdater_kubeletLimitsCPU_podsAreReplacedOrReverted has its own cluster. Its kubelets have the static policy of the CPU manager, with
// which they report that a resize of the CPU of a Guaranteed pod is infeasible. A Prometheus scrapes the CPU throttling of containers from
// the kubelets' cAdvisor.
func TestUpdater_kubeletLimitsCPU_podsAreReplacedOrReverted(t *testing.T) {
	w := newSmallWorld(t, bed.Options{Nodes: 1, Prometheus: true, StaticCPU: true}, "--feature-gates=InPlace=true")
	t.Run("infeasible-resize", func(t *testing.T) {
		t.Parallel()
		infeasibleResize(t, w)
	})
	t.Run("failed-resize", func(t *testing.T) {
		t.Parallel()
		failedResize(t, w)
	})
	t.Run("throttled-canary", func(t *testing.T) {
		t.Parallel()
		throttledCanary(t, w)
	})
}

// infeasibleResize has Guaranteed pods whose resize the API server accepts and the kubelet never carries out. The API server itself
// refuses what exceeds the allocatable resources of the node (TestUpdater_fullNode_eachStateOfAResizeEndsAsDocumented), so this is the
// one way to the reason Infeasible that users have. In mode InPlaceOrRecreate the pods are evicted at once, as documented. In mode
// InPlace they are left. Neither pod is resized again.
func infeasibleResize(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "infeasible-resize")
	replaced, kept := steady("replaced"), steady("kept")
	for _, s := range []*spec{&replaced, &kept} {
		s.Requests, s.Limits, s.CPU, s.Memory = "{cpu: 200m, memory: 100Mi}", "{cpu: 200m, memory: 100Mi}", "50m", "50Mi"
		p.apply(s.manifest())
	}
	old := map[string][]corev1.Pod{"replaced": p.start("replaced", 2), "kept": p.start("kept", 2)}
	p.apply(replaced.ownAutoscaler("InPlaceOrRecreate"), kept.ownAutoscaler("InPlace"))
	p.advise("300m", "100Mi", "replaced", "kept")

	infeasible := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "kept")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible && strings.Contains(c.Message, "CPU Manager policy") {
					return nil
				}
			}
		}
		return fmt.Errorf("no pod of %d has the condition", len(pods))
	}
	p.eventually("the kubelet says that the resize is infeasible", resized, infeasible)
	p.eventually("the condition of the VPA says so", resized, p.says("kept", updatingCondition, "ResizeImpossible"))
	p.eventually("the pods in mode InPlaceOrRecreate are replaced", 2*resized, p.sized("replaced", 2, "app cpu=300m memory=104857600"))
	p.always("the pods in mode InPlace are left", 10*time.Second, all(p.same("kept", old["kept"]), infeasible))
	p.resizedOnce()
	for _, pod := range old["replaced"] {
		if n := p.attempts(pod.Name, "eviction"); n != 1 {
			t.Errorf("%d requests to evict %s, want 1", n, pod.Name)
		}
	}
}

// failedResize has containers that the runtime cannot resize, so that the kubelet reports an error. In mode InPlaceOrRecreate the pods are
// evicted at once, and their replacements are created with the size. In mode InPlace they are left, and not resized again.
func failedResize(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "failed-resize")
	replaced, kept := steady("replaced"), steady("kept")
	old := map[string][]corev1.Pod{}
	for s, mode := range map[*spec]string{&replaced: "InPlaceOrRecreate", &kept: "InPlace"} {
		s.Requests, s.Limits, s.CPU, s.Memory = "{cpu: 100m, memory: 100Mi}", "{cpu: 200m}", "50m", "50Mi"
		p.apply(strings.Replace(s.manifest(), "sim.podfit.dev/app.memory:", "sim.podfit.dev/app.resize: fails\n        sim.podfit.dev/app.memory:", 1), s.ownAutoscaler(mode))
		old[s.Name] = p.start(s.Name, 2)
	}
	p.advise("150m", "100Mi", "replaced", "kept")
	p.eventually("the condition of the VPA says that the resize failed", 2*resized, p.says("kept", updatingCondition, "ResizeFailed"))
	p.eventually("the pods in mode InPlaceOrRecreate are replaced", 3*resized, p.sized("replaced", 2, "app cpu=150m memory=104857600"))
	p.always("the pods in mode InPlace are left", 15*time.Second, p.same("kept", old["kept"]))
	p.resizedOnce()
	for _, pod := range old["replaced"] {
		if n := p.attempts(pod.Name, "eviction"); n != 1 {
			t.Errorf("%d requests to evict %s, want 1", n, pod.Name)
		}
	}
}

// throttledCanary has a canary whose new CPU limit is below what it needs. The cAdvisor of the kubelet counts the periods in which it is
// throttled, Prometheus scrapes them, and podfit reverts the size. No other pod is changed.
func throttledCanary(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "throttled-canary")
	p.allow(invariant.Advised, "a canary that fails gets the size before, although the recommendation in the status is another one")
	web := steady("web")
	web.Replicas, web.CPU, web.Memory = 3, "300m", "50Mi"
	web.Requests, web.Limits = "{cpu: 400m, memory: 100Mi}", "{cpu: 500m}"
	p.apply(web.manifest(), annotated(web.ownAutoscaler("InPlaceOrRecreate"), "podfit.dev/rollout: canary", "podfit.dev/canary-duration: 10m"))
	old := p.start("web", 3)
	p.always("Prometheus scrapes the pods before the change", 45*time.Second, p.same("web", old))
	p.advise("100m", "100Mi", "web") // with a limit of 125m
	const throttled = "app cpu=100m memory=104857600"
	p.eventually("one pod has the new size", resized, p.changed("web", throttled, 1))
	canary := p.ofSize("web", throttled)[0]

	p.eventually("the condition names the throttling", 6*time.Minute,
		p.says("web", vpav1.VerticalPodAutoscalerConditionType("Reverted"), "Throttled", "CPU"))
	p.eventually("the canary has the size before", resized, p.sized("web", 3, "app cpu=400m memory=104857600"))
	if err := p.same("web", old)(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pod := range old {
		want := 0
		if pod.Name == canary.Name {
			want = 2 // there and back
		}
		if n := p.attempts(pod.Name, "resize"); n != want {
			t.Errorf("%d resizes of %s, want %d", n, pod.Name, want)
		}
	}
}
