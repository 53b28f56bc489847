// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heapOfJVM has a JVM with a memory limit and without a maximum heap. New pods get the heap of the annotation.
func heapOfJVM(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("java")
	w.Limits = "{memory: 300Mi}"
	manifest := strings.Replace(w.manifest(), "  labels: {app: java}", "  labels: {app: java, podfit.dev/runtime: jvm}", 1)
	p.apply(manifest, annotated(w.autoscaler("Initial"), `podfit.dev/inject-heap-percent: "60"`))
	old := p.start("java", 2)
	p.eventually("there is a recommendation", measured, p.recommended("java", steadyTarget))
	for _, pod := range old {
		if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("new pods have the target", resized, p.sized("java", 2, steadyTarget))
	for _, pod := range p.start("java", 2) {
		c := pod.Spec.Containers[0]
		if len(c.Env) != 1 || c.Env[0].Name != "JAVA_TOOL_OPTIONS" || c.Env[0].Value != "-XX:MaxRAMPercentage=60.0" || c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) <= 0 {
			t.Errorf("%s: environment %v, resources %v", pod.Name, c.Env, c.Resources)
		}
	}
}
