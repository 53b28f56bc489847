// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// The containers have their recommended requests, the pod-level requests are higher, and the API server does not resize those. Where the mode does not evict, they
// are not lowered, and no condition says that they have the recommended size.
func TestUpdater_podLevelResourcesCannotBeLowered_autoscalerIsNotUpToDate(t *testing.T) {
	for mode, want := range map[cluster.Mode]string{
		cluster.InPlace: "True ResizeRefused",
		cluster.Initial: " ", // no condition, because the pods are not updated
		cluster.Off:     " ",
	} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHostileCluster(mode)
				y.config = given(t, "--feature-gates=InPlace=true")
				need := cluster.Amounts(413, 517<<20)
				y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: need, Target: need, Upper: need}
				y.change(func(p *cluster.Pod) {
					p.Containers[0].Requests, p.Containers[0].Limits = need, cluster.Resources{}
					p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(1000, 1<<30)}
				})
				y.resize = func(*cluster.Pod, []policy.Fitted) (error, bool) { return kube.ErrInvalid, true }
				u := updaterOf(y.fakeCluster, y)
				u.world = y
				to := &conditionLog{}
				u.conditions.summaries = summary.NewWriter(to, nil, y.log)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go u.conditions.summaries.Run(ctx)
				for range 30 {
					u.pass(ctx, time.Now())
					time.Sleep(time.Minute)
				}
				if c := to.get(); string(c.Status)+" "+c.Reason != want || want != " " && !strings.HasPrefix(c.Message, "0 of 3 pods need no change.") {
					t.Errorf("condition %+v, want %q and no pod with the recommended size; tried %v", c, want, y.tried)
				}
			})
		})
	}
}
