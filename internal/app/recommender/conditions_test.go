// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// The core does not import the API, so it has constants of its own.
func TestReasons_ofCoreAndAPI_areEqual(t *testing.T) {
	for reason, want := range map[sizing.Reason]string{
		sizing.Invalid:      v1alpha1.ReasonInvalid,
		sizing.Deleted:      v1alpha1.ReasonDeleted,
		sizing.OtherProfile: v1alpha1.ReasonOtherProfile,
		sizing.ModeEvicts:   v1alpha1.ReasonModeEvicts,

		sizing.Reason(recommend.NodesNotKnown):  v1alpha1.ReasonNodesNotKnown,
		sizing.Reason(recommend.TooYoung):       v1alpha1.ReasonTooYoung,
		sizing.Reason(recommend.LargerThanHalf): v1alpha1.ReasonLargerThanHalf,
		sizing.Reason(recommend.LimitByRequest): v1alpha1.ReasonLimitByRequest,
	} {
		if string(reason) != want {
			t.Errorf("the core has reason %q, the API %q", reason, want)
		}
	}
}

// VPAs without a readable targetRef have no workload in common.
func TestRecommender_profilesOfVPAsWithoutTarget_doNotConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, profile := range []string{"balanced", "busy-hours"} {
			b.autoscale(profile, cluster.Workload{}).Recommender = profile
		}
		b.run(10 * time.Minute)
		for _, a := range b.autoscalers {
			if c := b.condition(a.Name, v1alpha1.ConditionSizingProfileUsable); c.Status != watcher.Removed {
				t.Errorf("SizingProfileUsable of %s is %+v", a.Name, c)
			}
		}
	})
}
