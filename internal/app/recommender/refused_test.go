// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestRecommender_sizeThatTheAPIServerRejects_isReportedByACondition(t *testing.T) {
	cpu := func(milli int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, milli) }
	for name, c := range map[string]struct {
		limits                       cluster.LimitRange
		mode                         cluster.Mode
		wantStatus, wantReason, want string
	}{
		"maxAllowed below the minimum of a LimitRange": {
			limits:     cluster.LimitRange{Container: cluster.Range{Min: cpu(200)}},
			wantStatus: watcher.True, wantReason: v1alpha1.ReasonHeldToAdmitted, want: "cpu of container app",
		},
		"LimitRange maximum, pod without a limit": {
			limits:     cluster.LimitRange{Pod: cluster.Range{Max: cpu(4000)}},
			wantStatus: watcher.True, wantReason: v1alpha1.ReasonNoSizeAdmitted, want: "the pod has no cpu limit",
		},
		"mode Off": {
			limits: cluster.LimitRange{Container: cluster.Range{Min: cpu(200)}}, mode: cluster.Off, wantStatus: watcher.Removed,
		},
		"size that is admitted": {wantStatus: watcher.Removed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				a := b.autoscale("web", b.deployment("web", 2, "app"))
				a.Mode = c.mode
				a.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(100)}}
				b.limits = c.limits
				b.run(10 * time.Minute)
				got := b.condition("web", v1alpha1.ConditionRecommendationNotAdmitted)
				if string(got.Status) != c.wantStatus || got.Reason != c.wantReason || !strings.Contains(got.Message, c.want) {
					t.Errorf("condition %+v, want status %q, reason %q, text %q", got, c.wantStatus, c.wantReason, c.want)
				}
			})
		})
	}
}
