// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestSurge_storedAnnotation_isReadAndWrittenTheSame(t *testing.T) {
	want := cluster.Surge{Replicas: 3, Pod: "web-1", UID: "uid-1", Cost: -7, Deadline: kubetest.At(t, "2026-03-01T14:30:00Z"), Lowered: true}
	text, err := recordOf(want)
	if err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "surge.json", []byte(text))
	if diff := cmp.Diff(&want, surgeOf(string(golden))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for cut := 0; cut < len(golden); cut++ {
		if got := surgeOf(string(golden[:cut])); got != nil {
			t.Fatalf("cut off after %d of %d bytes: %+v", cut, len(golden), got)
		}
	}
	if got := surgeOf(`{"replicas":3,"uid":"u","later":[1],"deadline":"2026-03-01T14:30:00Z"}`); got == nil || got.Replicas != 3 {
		t.Errorf("with more fields: %+v", got)
	}
	if got := surgeOf(`{"replicas":"NaN","uid":"u","deadline":"2026-03-01T14:30:00Z"}`); got != nil {
		t.Errorf("with replicas that are no number: %+v", got)
	}
}
