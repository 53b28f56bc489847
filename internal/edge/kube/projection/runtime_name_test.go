// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import "testing"

// The recommender refuses a SizingProfile with the name of a built-in profile. Its guards and its canary must not apply to all users of the built-in one.
func TestProfileOf_nameOfABuiltin_hasNoEffect(t *testing.T) {
	if got := ProfileOf("balanced", []byte(`{"rollout":"canary","runtimeGuards":["cpu","memory"]}`)); got != (Profile{}) {
		t.Errorf("%+v, want nothing", got)
	}
}
