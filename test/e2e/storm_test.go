// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rescueWithoutWebhook has a ReplicationController whose containers are OOM-killed seconds after each start. Their requests are within the
// bounds of the recommendation, which has more memory, but the webhook is not called for their replacements. Two pods are evicted at most, and
// the VPA and an event say why no more are.
func rescueWithoutWebhook(t *testing.T, name string) {
	p := newPlace(t, name)
	w := spec{
		Kind: "ReplicationController", Name: "hungry", Replicas: 3, CPU: "50m", Memory: "ramp(40Mi, 300Mi, 10s)",
		Requests: "{cpu: 100m, memory: 64Mi}", Limits: "{memory: 128Mi}",
	}
	p.apply(w.ownAutoscaler("Recreate"))
	p.adviseMemory("hungry", "64Mi", "128Mi", "256Mi")
	manifest := strings.Replace(w.manifest(), "apiVersion: apps/v1", "apiVersion: v1", 1)
	p.apply(strings.Replace(manifest, "selector: {matchLabels: {app: hungry}}", "selector: {app: hungry}", 1))
	p.eventually("the condition says that replacements do not get the requests", measured, p.says("hungry", updatingCondition, "NotSizedAtAdmission"))
	p.eventually("an event is written", resized, p.eventOf("UpdateHeld"))
	p.always("at most two pods are evicted", 40*time.Second, func(context.Context) error {
		if n := len(p.evictions()); n > 2 {
			return fmt.Errorf("%d pods were evicted, want 2 at most", n)
		}
		return nil
	})
}

// adviseMemory writes a recommendation for the container app of a VPA as the service account of the recommender: 100m CPU, and the bounds
// and the target of memory.
func (p *place) adviseMemory(name, lower, target, upper string) {
	p.Helper()
	size := func(memory string) map[string]string { return map[string]string{"cpu": "100m", "memory": memory} }
	p.adviseContainers(name, map[string]any{"containerName": "app", "lowerBound": size(lower), "target": size(target), "upperBound": size(upper)})
}
