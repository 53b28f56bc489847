// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestAKillIsSaidToBeSoLongAfterTheStart(t *testing.T) {
	r := Reason{Code: OutOfMemory, Resource: cluster.Memory, From: 256 << 20, To: 400 << 20}
	for after, want := range map[time.Duration]string{
		0:                      "out of memory right after its start: memory 256Mi → 400Mi",
		900 * time.Millisecond: "out of memory right after its start: memory 256Mi → 400Mi",
		time.Second:            "out of memory 1s after its start: memory 256Mi → 400Mi",
		3 * time.Minute:        "out of memory 3m after its start: memory 256Mi → 400Mi",
	} {
		if r.For = after; r.String() != want {
			t.Errorf("%v: %s", after, r)
		}
	}
}
