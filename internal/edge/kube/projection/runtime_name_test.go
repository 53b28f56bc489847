// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// The recommender refuses a SizingProfile with the name of a built-in profile. Its guards must not apply to all users of the built-in one.
func TestProfileGuards_nameOfABuiltin_hasNoEffect(t *testing.T) {
	if got := ProfileGuards("balanced", []byte(`{"runtimeGuards":["cpu","memory"]}`)); got != (cluster.RuntimeGuards{}) {
		t.Errorf("%+v, want no guards", got)
	}
}
