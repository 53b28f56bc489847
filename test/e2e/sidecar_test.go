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
)

// nativeSidecar has a pod with an init container, a native sidecar and a regular container. The sidecar, whose usage is constant, is sized like the
// regular container: running pods in place, new pods by the webhook. The init container keeps its requests.
func nativeSidecar(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	manifest := strings.NewReplacer(
		"  annotations:\n", "  annotations:\n        sim.podfit.dev/setup.exit: after=1s\n"+
			"        sim.podfit.dev/mesh.cpu: 700m\n        sim.podfit.dev/mesh.memory: 500Mi\n",
		"      containers:\n", "      initContainers:\n"+
			"      - {name: setup, image: test/app, resources: {requests: {cpu: 20m, memory: 20Mi}}}\n"+
			"      - {name: mesh, image: test/app, restartPolicy: Always, resources: {requests: {cpu: 30m, memory: 30Mi}}}\n"+
			"      containers:\n",
	).Replace(w.manifest())
	p.apply(manifest, w.autoscaler("InPlaceOrRecreate"))
	before := p.start("steady", 2)
	const app, mesh = "app cpu=350m memory=248153480", "mesh cpu=813m memory=628694953" // the minimum of a pod is shared by two containers
	p.eventually("both have a recommendation", measured, p.recommended("steady", app+"; "+mesh))
	p.eventually("both are resized in place", resized, all(p.sized("steady", 2, app), p.meshed("steady", mesh), p.same("steady", before)))
	for _, pod := range p.start("steady", 2) {
		for _, s := range pod.Status.InitContainerStatuses {
			if s.Name == "mesh" && s.RestartCount > 0 {
				t.Errorf("the sidecar of %s restarted %d times", pod.Name, s.RestartCount)
			}
		}
		if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("new pods have both sizes", resized, all(p.sized("steady", 2, app), p.meshed("steady", mesh)))
	for _, pod := range p.start("steady", 2) {
		if got := pod.Annotations["vpaObservedContainers"]; got != "app, mesh" {
			t.Errorf("vpaObservedContainers of %s is %q", pod.Name, got)
		}
		if got := pod.Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "20m" {
			t.Errorf("init container of %s requests %s of CPU, want 20m", pod.Name, got)
		}
	}
}

// meshed returns a check that the sidecars of all pods of a workload run with these requests.
func (p *place) meshed(app, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.running(ctx, app, 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			of := map[string]corev1.ResourceList{}
			for _, s := range pod.Status.InitContainerStatuses {
				if s.Name == "mesh" && s.Resources != nil {
					of[s.Name] = s.Resources.Requests
				}
			}
			if got := write(of); got != want {
				return fmt.Errorf("pod %s has %q, want %q", pod.Name, got, want)
			}
		}
		return nil
	}
}
