// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cpuLimitsRemoved has a workload whose profile removes CPU limits, and one of the right size whose VPA removes them. New pods of the first one
// have no CPU limit, and the updater leaves them alone. The pods of the second one keep their limits, because nothing else changes.
func cpuLimitsRemoved(t *testing.T, name string) {
	p := newPlace(t, name)
	steadily, right := steady("steady"), steady("right")
	steadily.Limits, right.Limits = "{cpu: 100m, memory: 300Mi}", "{cpu: 200m, memory: 300Mi}" // they use 200Mi
	const profile = "e2e-no-limits"
	p.apply(sizingProfile(profile, "{base: default, limits: {cpu: remove}}"), steadily.manifest(), right.manifest())
	p.start("steady", 2)
	old := p.start("right", 2)
	p.apply(autoscaler("steady", "", "steady", "Recreate", withProfile(profile)),
		annotated(right.othersAutoscaler("Recreate"), "podfit.dev/cpu-limits: remove"))
	p.advise("100m", "50Mi", "right")
	p.eventually("new pods have the target", measured+resized, p.sized("steady", 2, steadyTarget))
	now, err := p.running(t.Context(), "steady", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range now {
		limits := pod.Spec.Containers[0].Resources.Limits
		if _, limited := limits[corev1.ResourceCPU]; limited || limits.Memory().IsZero() || pod.Status.QOSClass != corev1.PodQOSBurstable {
			t.Errorf("%s: limits %v, class %s", pod.Name, limits, pod.Status.QOSClass)
		}
		if note := pod.Annotations["vpaUpdates"]; !strings.HasSuffix(note, "; cpu limit removed: container app") {
			t.Errorf("%s: annotation %q", pod.Name, note)
		}
	}
	p.always("pods of the right size stay", 15*time.Second, all(p.same("steady", now), p.same("right", old)))
}
