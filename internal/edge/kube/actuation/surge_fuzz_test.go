// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// A record that podfit accepts can be written again. Otherwise its surge could not end.
func FuzzSurgeRecord_anyAnnotation_acceptedOnesCanBeWritten(f *testing.F) {
	for _, s := range []string{
		`{"replicas":3,"pod":"web-1","uid":"u","deletionCost":-7,"deadline":"2026-03-02T14:30:00Z","lowered":true}`,
		`{"replicas":3,"uid":"u","deadline":"9999-12-31T23:59:59-01:00"}`, `{"replicas":3,"uid":"u","deadline":"0000-01-01T00:00:00+01:00"}`,
		`{"replicas":2147483647,"uid":"u"}`, "null", "{}", "[",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		s := surgeOf(annotation)
		if s == nil {
			return
		}
		if s.Replicas < 1 || s.Replicas == math.MaxInt32 || s.UID == "" {
			t.Errorf("accepted %+v", s)
		}
		text, err := recordOf(*s)
		if err != nil {
			t.Fatalf("an accepted record cannot be written: %v", err)
		}
		want := *s
		want.Deadline = want.Deadline.UTC().Truncate(time.Second)
		if again := surgeOf(text); !json.Valid([]byte(text)) || len(text) <= maxSurgeBytes && (again == nil || *again != want) {
			t.Errorf("%s is read as %+v, want %+v", text, again, want)
		}
	})
}
