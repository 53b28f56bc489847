// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// boosts checks that new pods start with twice the recommended CPU, and lose it without a restart after they have been ready for
// the configured time. It needs the feature gate CPUStartupBoost.
func (p *place) boosts() {
	p.Helper()
	w := steady("boosted")
	p.apply(w.manifest(), autoscaler(w.Name, "", w.Name, "InPlaceOrRecreate", "  startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 15}}"))
	p.eventually("the workload has its size", measured+resized, p.sized("boosted", 2, steadyTarget))
	old := p.start("boosted", 2)
	for _, pod := range old {
		if err := p.CoreV1().Pods(p.ns).Delete(p.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	boosted := strings.Replace(steadyTarget, "350m", "700m", 1)
	p.eventually("new pods are boosted", resized, func(ctx context.Context) error {
		if err := p.sized("boosted", 2, boosted)(ctx); err != nil {
			return err
		}
		pods, err := p.pods(ctx, "boosted")
		for _, pod := range pods {
			if pod.Annotations["vpaCpuStartupBoost/app"] == "" {
				return fmt.Errorf("pod %s has no annotation with its request before the boost", pod.Name)
			}
		}
		return err
	})
	pods := p.start("boosted", 2)
	if slices.Contains(uids(pods), old[0].UID) {
		p.Error("a pod from before the boost was boosted")
	}
	p.eventually("the boost ends", resized, func(ctx context.Context) error {
		if err := p.sized("boosted", 2, steadyTarget)(ctx); err != nil {
			return err
		}
		if err := p.same("boosted", pods)(ctx); err != nil {
			p.Fatalf("the boost did not end in place: %v", err)
		}
		now, err := p.pods(ctx, "boosted")
		for _, pod := range now {
			if _, there := pod.Annotations["vpaCpuStartupBoost/app"]; there {
				return errors.New("the annotation of the boost still exists")
			}
		}
		return err
	})
}
