// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// TestUpdater_kubeletLimits_podsAreReplacedOrReverted has its own cluster. Its kubelets have the static policies of the CPU manager and of
// the memory manager, with which they report that a resize of a Guaranteed pod is infeasible. A Prometheus scrapes the CPU throttling of
// containers from the kubelets' cAdvisor.
func TestUpdater_kubeletLimits_podsAreReplacedOrReverted(t *testing.T) {
	w := newSmallWorld(t, bed.Options{Nodes: 1, Prometheus: true, Static: true}, "--feature-gates=InPlace=true")
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

// infeasibleResize has Guaranteed pods whose resize the API server accepts and the kubelet never carries out, of CPU and of memory. The API
// server itself refuses what exceeds the allocatable resources of the node (TestUpdater_fullNode_eachStateOfAResizeEndsAsDocumented). Of the
// other causes of the reason Infeasible in the kubelet, swap needs a machine with cgroups of version 2. In mode InPlaceOrRecreate the pods
// are evicted at once, as documented. In mode InPlace they are left. No pod is resized again.
func infeasibleResize(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "infeasible-resize")
	workloads := []spec{steady("replaced"), steady("kept"), steady("kept-memory")}
	old := map[string][]corev1.Pod{}
	for i := range workloads {
		s := &workloads[i]
		s.Requests, s.Limits, s.CPU, s.Memory = "{cpu: 200m, memory: 100Mi}", "{cpu: 200m, memory: 100Mi}", "50m", "50Mi"
		p.apply(s.manifest())
	}
	for _, s := range workloads {
		old[s.Name] = p.start(s.Name, 2)
	}
	p.apply(workloads[0].ownAutoscaler("InPlaceOrRecreate"), workloads[1].ownAutoscaler("InPlace"), workloads[2].ownAutoscaler("InPlace"))
	p.advise("300m", "100Mi", "replaced", "kept")
	p.advise("200m", "150Mi", "kept-memory")

	const (
		ofCPU    = `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`
		ofMemory = `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`
	)
	infeasible := all(p.pendingOrFailed("kept", corev1.PodResizePending, corev1.PodReasonInfeasible, ofCPU),
		p.pendingOrFailed("kept-memory", corev1.PodResizePending, corev1.PodReasonInfeasible, ofMemory))
	p.eventually("the kubelet says that the resize is infeasible", 2*resized, infeasible) // the second pod follows after a minute
	p.eventually("the condition of the VPA says so, with the text of the kubelet", resized,
		all(p.says("kept", updatingCondition, "ResizeImpossible", ofCPU), p.says("kept-memory", updatingCondition, "ResizeImpossible", ofMemory)))
	p.eventually("the pods in mode InPlaceOrRecreate are replaced", 2*resized, p.sized("replaced", 2, "app cpu=300m memory=104857600"))
	p.always("the pods in mode InPlace are left", 10*time.Second, all(p.same("kept", old["kept"]), p.same("kept-memory", old["kept-memory"]), infeasible))
	p.resizedOnce()
	p.evictedOnceAfterResize(old["replaced"])
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
	const cause = "the container cannot be resized (sim.podfit.dev/app.resize: fails)" // the answer of the runtime
	failed := p.pendingOrFailed("kept", corev1.PodResizeInProgress, corev1.PodReasonError, cause)
	p.eventually("the kubelet says that the resize failed", 2*resized, failed) // the second pod follows after a minute
	p.eventually("the condition of the VPA says so, with the answer of the runtime", resized, p.says("kept", updatingCondition, "ResizeFailed", cause))
	p.eventually("the pods in mode InPlaceOrRecreate are replaced", 3*resized, p.sized("replaced", 2, "app cpu=150m memory=104857600"))
	p.always("the pods in mode InPlace are left", 15*time.Second, all(p.same("kept", old["kept"]), failed))
	p.resizedOnce()
	p.evictedOnceAfterResize(old["replaced"])
}

// pendingOrFailed returns a check that all pods of a workload have a condition of a resize with a reason and a text.
func (p *place) pendingOrFailed(app string, kind corev1.PodConditionType, reason, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.pods(ctx, app)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == kind && c.Reason == reason && strings.Contains(c.Message, text)
			}) {
				return fmt.Errorf("%s has the conditions %+v, want %s with reason %s and %q", pod.Name, pod.Status.Conditions, kind, reason, text)
			}
		}
		return nil
	}
}

// evictedWithin is how long an eviction without a wait may take. The interval of the updater is a minute, so only an early pass is fast enough.
const evictedWithin = 50 * time.Second

// evictedOnceAfterResize checks that the updater has evicted each pod once, and the first one at once after it has requested a resize.
func (p *place) evictedOnceAfterResize(pods []corev1.Pod) {
	p.Helper()
	for _, pod := range pods {
		if n := p.attempts(pod.Name, "eviction"); n != 1 {
			p.Errorf("%d requests to evict %s, want 1", n, pod.Name)
		}
	}
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	first := map[string]time.Time{}
	for _, w := range log.Writes {
		of := func(pod corev1.Pod) bool { return w.Namespace == p.ns && w.Name == pod.Name }
		if at := first[w.Subresource]; w.OK() && slices.ContainsFunc(pods, of) && (at.IsZero() || w.At.Before(at)) {
			first[w.Subresource] = w.At
		}
	}
	after := first["eviction"].Sub(first["resize"])
	p.Logf("the first pod is evicted %v after the first resize", after)
	if first["resize"].IsZero() || after <= 0 || after > evictedWithin {
		p.Errorf("the first pod is evicted %v after the first resize, want at most %v", after, evictedWithin)
	}
}

// throttledCanary has a canary whose new CPU limit is below what it needs. The cAdvisor of the kubelet counts the periods in which it is
// throttled, Prometheus scrapes them, and podfit reverts the size. No other pod is changed.
func throttledCanary(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "throttled-canary")
	p.allow(invariant.Advised, "a canary that fails gets the previous size, although the recommendation in the status is another one")
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
	p.eventually("the canary has the previous size", resized, p.sized("web", 3, "app cpu=400m memory=104857600"))
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
