// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
)

func TestInterrupted_updaterWasKilled_nextOneWaitsForTheWatch(t *testing.T) {
	stored := announcedDB(New(), noon.Add(-time.Hour))
	next := New()
	next.Restore(noon.Add(time.Second), stored)
	for after, want := range map[time.Duration]bool{time.Minute: true, attempt.WatchDelay - time.Minute: true, attempt.WatchDelay + time.Minute: false} {
		if _, got := next.Interrupted(noon.Add(after), db); got != want {
			t.Errorf("interrupted %v after %v, want %v", got, after, want)
		}
	}
	other := db
	other.Name = "other"
	if _, interrupted := next.Interrupted(noon, other); interrupted {
		t.Error("a workload that was not announced is interrupted")
	}
	for _, after := range []time.Duration{0, attempt.WatchDelay + time.Minute, announcementTTL + time.Minute} { // in this order: what has expired is dropped
		want := after < announcementTTL
		next.Learn(noon.Add(after), View{}, nil)
		got := next.Export(attempt.Delays{})
		if isStored := len(got) == 1 && got[0].ActingSince.Equal(noon); isStored != want || !want && len(got) > 0 {
			t.Errorf("exported after %v is %+v, want the announcement: %v, until the outcome is known or for an hour", after, got, want)
		}
	}
}

// A user can change the object, but not stop actions for longer than WatchDelay.
func TestRestore_announcementInTheFuture_hasBoundedEffect(t *testing.T) {
	l := New()
	l.Restore(noon, []State{{Workload: db, ActingSince: noon.Add(24 * time.Hour)}})
	if until, interrupted := l.Interrupted(noon, db); !interrupted || until.After(noon.Add(attempt.WatchDelay)) {
		t.Errorf("interrupted %v until %v, want at most %v", interrupted, until, attempt.WatchDelay)
	}
}
