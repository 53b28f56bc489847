// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestRolesOf_moreThanEight_thoseWithPodsAndHistoryStay(t *testing.T) {
	var pods []*cluster.Pod
	for i := range 20 {
		pods = append(pods, &cluster.Pod{Phase: cluster.Running, Marks: &cluster.Marks{Labels: fmt.Sprintf("role=%02d", i)}})
	}
	want := []string{"00", "01", "02", "03", "04", "05", "17", "19"}
	if got := rolesOf(pods, "role", []string{"19", "17", "gone"}); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := rolesOf(nil, "role", []string{"b", "a"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v without pods", got)
	}
}
