// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/sizing"
)

// The core does not import the API, so it has constants of its own.
func TestReasons_ofCoreAndAPI_areEqual(t *testing.T) {
	for reason, want := range map[sizing.Reason]string{
		sizing.Invalid:      v1alpha1.ReasonInvalid,
		sizing.Deleted:      v1alpha1.ReasonDeleted,
		sizing.OtherProfile: v1alpha1.ReasonOtherProfile,
		sizing.ModeEvicts:   v1alpha1.ReasonModeEvicts,
	} {
		if string(reason) != want {
			t.Errorf("the core has reason %q, the API %q", reason, want)
		}
	}
}
