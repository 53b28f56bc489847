// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// podLevelResources has pods whose resources are those of the pod alone, and more than the containers need. They are lowered: replacements in mode
// Recreate, and in mode InPlaceOrRecreate also the running pods, if the API server resizes pod-level resources (KEP-5419).
func podLevelResources(t *testing.T, name string) {
	p := newPlace(t, name)
	for name, mode := range map[string]string{"replaced": "Recreate", "resized": "InPlaceOrRecreate"} {
		w := steady(name)
		w.Requests = ""
		p.apply(strings.Replace(w.manifest(), "      containers:\n", "      resources: {requests: {cpu: 1, memory: 1Gi}}\n      containers:\n", 1), w.autoscaler(mode))
	}
	for _, app := range []string{"replaced", "resized"} {
		p.eventually(app+" has lower requests", measured+3*resized, func(ctx context.Context) error {
			pods, err := p.running(ctx, app, 2)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				level := pod.Spec.Resources
				if level == nil || level.Requests.Cpu().MilliValue() != 350 || level.Requests.Memory().Value() != 250<<20 {
					return fmt.Errorf("pod %s has the pod-level resources %v", pod.Name, level)
				}
			}
			c, err := p.condition(ctx, app, updatingCondition)
			if err == nil && c.Reason != "UpToDate" {
				err = fmt.Errorf("the condition is %+v", c)
			}
			return err
		})
	}
}
