// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// sharedHeadroom is the namespace of pods whose containers share headroom. The test writes their recommendation, because the recommender learns for a
// day what such pods need.
const sharedHeadroom = "shared-headroom"

// headroomIsShared has pods with pod-level requests. The pod gets less than the sum of the targets, and the containers their parts: running pods in place,
// new pods at admission. Without parts in the status, the pod gets the sum.
func headroomIsShared(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(strings.NewReplacer(
		"      containers:\n", "      resources: {requests: {cpu: 1, memory: 1Gi}}\n      containers:\n"+
			"      - {name: batch, image: test/app, resources: {requests: {cpu: 100m, memory: 50Mi}}}\n",
		"  annotations:\n", "  annotations:\n        sim.podfit.dev/batch.memory: 100Mi\n",
	).Replace(w.manifest()), w.autoscaler("InPlaceOrRecreate"))
	before := p.start("steady", 2)

	p.advisePod("steady", map[string]string{"cpu": "400m", "memory": "300Mi"}, map[string]string{"cpu": "300m", "memory": "250Mi"})
	shared := p.levelled("steady", 600, 500<<20, "app cpu=300m memory=262144k; batch cpu=300m memory=262144k")
	p.eventually("running pods share headroom", resized, all(shared, p.same("steady", before)))
	if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), before[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("a new pod shares headroom", resized, shared)
	p.advisePod("steady", map[string]string{"cpu": "400m", "memory": "300Mi"}, nil)
	p.eventually("without parts, the pods have the sum", resized, p.levelled("steady", 800, 600<<20, "app cpu=400m memory=314572800; batch cpu=400m memory=314572800"))
}

// advisePod writes a recommendation for the containers app and batch, with their parts of what the pod needs as a whole.
func (p *place) advisePod(name string, target, parts map[string]string) {
	p.Helper()
	uncapped := map[string]string{"cpu": target["cpu"], "memory": target["memory"]}
	for res, part := range parts {
		uncapped["podfit.dev/shared-"+res] = part
	}
	var containers []any
	for _, c := range []string{"app", "batch"} {
		containers = append(containers, map[string]any{"containerName": c, "lowerBound": target, "target": target, "upperBound": target, "uncappedTarget": uncapped})
	}
	p.adviseContainers(name, containers...)
}

// levelled returns a check that two pods have these pod-level requests and these requests of their containers.
func (p *place) levelled(app string, millicores, bytes int64, containers string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.running(ctx, app, 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			level := pod.Spec.Resources
			if level == nil || level.Requests.Cpu().MilliValue() != millicores || level.Requests.Memory().Value() != bytes || requests(pod) != containers {
				return fmt.Errorf("pod %s has the pod-level resources %v, and %s", pod.Name, level, requests(pod))
			}
		}
		return nil
	}
}

// upstreamInit is the namespace of a recommender with --compatibility=upstream.
const upstreamInit = "init-container-upstream"

// initContainerIsSized has a workload whose init container is OOM-killed at its limit until it gets more memory, so that its pod never starts. The updater
// evicts the pod, and the replacement gets the memory. A new pod does not if the recommender has --compatibility=upstream.
func initContainerIsSized(t *testing.T, name string) {
	p, upstream := newPlace(t, name), newPlace(t, upstreamInit)
	own, err := upstream.healthy(t.Context(), bed.Recommender().Named("recommender-upstream").With("--recommender-interval=5s", "--compatibility=upstream",
		"--vpa-object-namespace="+upstreamInit))
	if err != nil {
		t.Fatal(err)
	}
	upstream.endsWithTest(own)
	w := steady("steady")
	w.Replicas = 1
	manifest := strings.NewReplacer(
		"  annotations:\n", "  annotations:\n        sim.podfit.dev/setup.exit: after=10s\n        sim.podfit.dev/setup.memory: ramp(40Mi, 180Mi, 3s)\n",
		"      containers:\n", "      initContainers:\n"+
			"      - {name: setup, image: test/app, resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 128Mi}}}\n      containers:\n",
	).Replace(w.manifest())
	for _, in := range []*place{p, upstream} {
		in.apply(manifest, w.autoscaler("Recreate"))
	}
	p.eventually("the init container has a target", measured, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "steady")
		if err == nil && !strings.Contains(targets(a), "setup ") {
			err = fmt.Errorf("the targets are %q", targets(a))
		}
		return err
	})
	old, err := upstream.pods(t.Context(), "steady")
	if err != nil || len(old) != 1 {
		t.Fatalf("%d pods in %s, error %v", len(old), upstream.ns, err)
	}
	if err := upstream.CoreV1().Pods(upstream.ns).Delete(t.Context(), old[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the pod is replaced by one with enough memory for its init container", 2*resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "steady", 1)
		if err != nil {
			return err
		}
		limit := pods[0].Spec.InitContainers[0].Resources.Limits[corev1.ResourceMemory]
		if limit.Value() < 180<<20 {
			err = fmt.Errorf("the limit of the init container is %s", &limit)
		}
		return err
	})
	if a, err := upstream.Autoscaler(t.Context(), upstream.ns, "steady"); err != nil || strings.Contains(targets(a), "setup ") {
		t.Errorf("with --compatibility=upstream: %s, error %v", targets(a), err)
	}
	pods, err := upstream.pods(t.Context(), "steady")
	if err != nil || len(pods) != 1 || pods[0].Spec.InitContainers[0].Resources.Limits.Memory().String() != "128Mi" {
		t.Errorf("with --compatibility=upstream: %d pods, %+v, error %v", len(pods), pods[0].Spec.InitContainers, err)
	}
}
