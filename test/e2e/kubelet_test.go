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
)

// resizeRestarts has containers that the kubelet restarts for a resize of their memory. Each is restarted once, and no pod is replaced.
func resizeRestarts(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	restarts := strings.Replace(w.manifest(), "{name: app,", "{name: app, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}],", 1)
	p.apply(restarts, w.autoscaler("InPlaceOrRecreate"))
	old := p.start("steady", 2)
	once := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if n := pod.Status.ContainerStatuses[0].RestartCount; n != 1 {
				return fmt.Errorf("%s: restarted %d times", pod.Name, n)
			}
		}
		return p.same("steady", old)(ctx)
	}
	p.eventually("the pods have the target", measured+resized, p.sized("steady", 2, steadyTarget))
	p.eventually("each container is restarted", resized, once)
	p.always("no container is restarted again", 15*time.Second, once)
}

// memoryDecreaseRefused has containers that use more memory than their new limit. The kubelet refuses to lower it. The pods keep their
// limits, are neither replaced nor restarted, and an event names the cause.
func memoryDecreaseRefused(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Requests, w.Limits = "{cpu: 350m, memory: 400Mi}", "{memory: 400Mi}"
	p.apply(w.manifest(), autoscaler("steady", "", "steady", "InPlaceOrRecreate",
		`  resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {memory: 100Mi}}]}`))
	old := p.start("steady", 2)
	refused := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodResizeInProgress && c.Reason == corev1.PodReasonError {
					return nil
				}
			}
		}
		return fmt.Errorf("no pod of %d has the condition", len(pods))
	}
	p.eventually("the kubelet refuses the decrease", measured+resized, refused)
	p.always("no pod is replaced or restarted", 20*time.Second, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			s := pod.Status.ContainerStatuses[0]
			if s.RestartCount != 0 || s.Resources.Limits.Memory().String() != "400Mi" {
				return fmt.Errorf("%s: restarted %d times, limit %s", pod.Name, s.RestartCount, s.Resources.Limits.Memory())
			}
		}
		return p.same("steady", old)(ctx)
	})
}
