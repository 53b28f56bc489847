// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/invariant"
)

// pausesBetweenPods has a StatefulSet and a Deployment with minReadySeconds, both without a PodDisruptionBudget, whose pods are ready a second
// after their start. The next pod is evicted only when the replacement of the last one has been ready for ten seconds, or for minReadySeconds.
func pausesBetweenPods(t *testing.T, name string) {
	p := newPlace(t, name)
	set, deployment := steady("set"), steady("deployment")
	set.Kind, set.Replicas, deployment.Replicas = "StatefulSet", 3, 3
	patient := strings.Replace(deployment.manifest(), "replicas: 3", "replicas: 3\n  minReadySeconds: 15", 1)
	p.apply(set.manifest(), patient, set.ownAutoscaler("Recreate"), deployment.ownAutoscaler("Recreate"))
	p.start("set", 3)
	p.start("deployment", 3)
	p.advise("350m", "262144k", "set", "deployment")
	for app, pause := range map[string]time.Duration{"set": 10 * time.Second, "deployment": 15 * time.Second} {
		p.eventually("all pods of "+app+" have the size", 3*resized, p.sized(app, 3, advisedSize))
		of := slices.DeleteFunc(p.evictions(), func(w invariant.Write) bool { return !strings.HasPrefix(w.Name, app+"-") })
		if len(of) != 3 {
			t.Fatalf("%d pods of %s were evicted, want 3", len(of), app)
		}
		for i := range of[1:] {
			if gap := of[i+1].At.Sub(of[i].At); gap < pause-time.Second { // the times of readiness have whole seconds
				t.Errorf("a pod of %s was evicted %v after the one before, want %v or more", app, gap, pause)
			}
		}
	}
}
