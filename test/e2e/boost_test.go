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
	"k8s.io/apimachinery/pkg/types"
)

// boosts checks that new pods start with twice the recommended CPU, and lose it without a restart after they have been ready for
// the configured time. It needs the feature gate CPUStartupBoost.
func (p *place) boosts() {
	p.Helper()
	w := steady("boosted")
	p.apply(w.manifest(), autoscaler(w.Name, "", w.Name, "InPlaceOrRecreate", "  startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 15}}"))
	p.eventually("the workload has its size", measured+resized, p.sized("boosted", 2, steadyTarget))
	p.boostedStart("boosted", "700m")
}

// learntBoosts checks that new pods start with three times the recommended CPU because the status of the VPA has a learnt boost, and lose it as
// a configured one. The test writes the status in place of the recommender, which needs an hour to learn.
func (p *place) learntBoosts() {
	p.Helper()
	w := steady("learnt")
	vpa := autoscaler(w.Name, "", w.Name, "InPlaceOrRecreate", "  recommenders: [{name: the-test}]")
	p.apply(w.manifest(), annotated(vpa, `podfit.dev/learn-startup-boost: "true"`))
	const size = `{"cpu":"350m","memory":"262144k"}`
	status := `{"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":` + size + `,"lowerBound":` + size + `,"upperBound":` + size + `,
		"uncappedTarget":{"cpu":"350m","podfit.dev/startup-boost-percent":"300","podfit.dev/startup-boost-seconds":"15","podfit.dev/startup-boost-starts":"5"}}]}}}`
	vpas := p.as("vpa-recommender").Dynamic.Resource(autoscalers).Namespace(p.ns)
	written, err := vpas.Patch(p.Context(), w.Name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	if err != nil {
		p.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(written.Object["status"]), "podfit.dev/startup-boost-percent:300") {
		p.Errorf("the API server does not keep the learnt boost: %v", written.Object["status"])
	}
	p.eventually("the workload has its size", resized, p.sized(w.Name, 2, steadyTarget))
	p.boostedStart(w.Name, "1050m")
}

// boostedStart replaces the pods of a workload and checks that the new ones start with an amount of CPU, and then get the recommended one in
// place.
func (p *place) boostedStart(name, cpu string) {
	p.Helper()
	old := p.start(name, 2)
	for _, pod := range old {
		if err := p.CoreV1().Pods(p.ns).Delete(p.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	boosted := strings.Replace(steadyTarget, "350m", cpu, 1)
	p.eventually("new pods are boosted", resized, func(ctx context.Context) error {
		if err := p.sized(name, 2, boosted)(ctx); err != nil {
			return err
		}
		pods, err := p.pods(ctx, name)
		for _, pod := range pods {
			if pod.Annotations["vpaCpuStartupBoost/app"] == "" {
				return fmt.Errorf("pod %s has no annotation with its request before the boost", pod.Name)
			}
		}
		return err
	})
	pods := p.start(name, 2)
	if slices.Contains(uids(pods), old[0].UID) {
		p.Error("a pod from before the boost was boosted")
	}
	p.eventually("the boost ends", resized, func(ctx context.Context) error {
		if err := p.sized(name, 2, steadyTarget)(ctx); err != nil {
			return err
		}
		if err := p.same(name, pods)(ctx); err != nil {
			p.Fatalf("the boost did not end in place: %v", err)
		}
		now, err := p.pods(ctx, name)
		for _, pod := range now {
			if _, there := pod.Annotations["vpaCpuStartupBoost/app"]; there {
				return errors.New("the annotation of the boost still exists")
			}
		}
		return err
	})
}
