// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
)

// nativeSidecar has a pod with an init container, a native sidecar and a regular container. Only the last one is sized.
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
	p.apply(manifest, w.autoscaler("Recreate"))
	p.start("steady", 2)
	p.eventually("the container has its size", measured+resized, p.sized("steady", 2, steadyTarget))
	p.eventually("only the container has a recommendation", resized, p.recommended("steady", steadyTarget))
	for _, pod := range p.start("steady", 2) {
		if got := pod.Annotations["vpaObservedContainers"]; got != "app" {
			t.Errorf("vpaObservedContainers of %s is %q", pod.Name, got)
		}
		if len(pod.Spec.InitContainers) != 2 {
			t.Fatalf("pod %s has %d init containers", pod.Name, len(pod.Spec.InitContainers))
		}
		for i, want := range []string{"cpu=20m memory=20Mi", "cpu=30m memory=30Mi"} {
			c := pod.Spec.InitContainers[i]
			if got := "cpu=" + c.Resources.Requests.Cpu().String() + " memory=" + c.Resources.Requests.Memory().String(); got != want {
				t.Errorf("init container %s of %s requests %s, want %s", c.Name, pod.Name, got, want)
			}
		}
	}
	if cs, err := p.Checkpoints(t.Context(), p.ns); err != nil || len(cs) > 1 {
		t.Errorf("there are %d checkpoints of one container, %v", len(cs), err)
	}
}
