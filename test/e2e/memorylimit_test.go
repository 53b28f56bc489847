// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// memoryLimitsByPeaks has two workloads that use 200Mi, and have a limit close to that. With the rule peaks, the limit of the one that needs more CPU is
// raised in place together with that, to 1 GiB above the highest usage, and no container restarts. New pods have it, too. The pods of the other one, which
// request what they need, are not changed for it.
func memoryLimitsByPeaks(t *testing.T, name string) {
	p := newPlace(t, name)
	const profile = "e2e-limits-by-peaks"
	inPlace, recreated := steady("in-place"), steady("recreated")
	for _, w := range []*spec{&inPlace, &recreated} {
		w.Requests, w.Limits = "{cpu: 350m, memory: 262144k}", "{memory: 300Mi}"
	}
	inPlace.Requests = "{cpu: 100m, memory: 262144k}"
	p.apply(sizingProfile(profile, "{base: default, limits: {memory: peaks}}"), inPlace.manifest(), recreated.manifest())
	old, kept := p.start("in-place", 2), p.start("recreated", 2)
	p.apply(autoscaler("in-place", "", "in-place", "InPlaceOrRecreate", withProfile(profile)),
		annotated(recreated.autoscaler("Recreate"), "podfit.dev/memory-limits: peaks"))
	raised := func(ctx context.Context) error {
		pods, err := p.running(ctx, "in-place", 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			// The buckets of the histogram are 5 % wide.
			for what, limits := range map[string]corev1.ResourceList{"spec": pod.Spec.Containers[0].Resources.Limits, "status": pod.Status.ContainerStatuses[0].Resources.Limits} {
				if limit := limits.Memory().Value(); limit < 1224<<20 || limit > 1300<<20 {
					return fmt.Errorf("%s: the limit in its %s is %s", pod.Name, what, limits.Memory())
				}
			}
		}
		return nil
	}
	p.eventually("the limits are raised in place", measured+resized, raised)
	p.always("no pod is replaced or restarted", 15*time.Second, all(p.same("in-place", old), p.same("recreated", kept), raised))

	if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), old[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("a new pod has the limit", resized, all(raised, func(ctx context.Context) error {
		pods, err := p.running(ctx, "in-place", 2)
		if err == nil && (pods[0].Name == old[0].Name || pods[1].Name == old[0].Name) {
			err = fmt.Errorf("%s still exists", old[0].Name)
		}
		return err
	}))
}
