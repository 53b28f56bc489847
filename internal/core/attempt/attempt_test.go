// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDoubled_attempts_delayGrowsToItsMaximum(t *testing.T) {
	d := Delays{BackoffBase: time.Minute, BackoffMax: 5 * time.Minute}
	for n, want := range map[int]time.Duration{-1: time.Minute, 0: time.Minute, 1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 4: 5 * time.Minute, MaxCount: 5 * time.Minute} {
		if got := d.Backoff(n); got != want {
			t.Errorf("after %d attempts: %v, want %v", n, got, want)
		}
	}
}

func TestTurns_workloadHasATurn_itsNamespaceHasOne(t *testing.T) {
	turns := Turns{}
	turns.Took(noon, "shop", "web")
	turns.Took(noon.Add(-time.Hour), "shop", "cart") // a stored one
	if got := turns.Last("shop"); !got.Equal(noon) {
		t.Errorf("the last turn of the namespace was at %v, want %v", got, noon)
	}
	if web, cart, other := turns.LastOf("shop", "web"), turns.LastOf("shop", "cart"), turns.LastOf("bank", "web"); !web.Equal(noon) || !cart.Before(web) || !other.IsZero() {
		t.Errorf("turns at %v, %v and %v", web, cart, other)
	}
	turns.Forget(noon.Add(HistoryTTL))
	if len(turns) != 2 || turns.Last("shop").IsZero() {
		t.Errorf("%d turns after a day, want those of the namespace and of web", len(turns))
	}
}

func TestStored_hostileValues_areBounded(t *testing.T) {
	if got := Past(noon, noon.Add(time.Hour)); !got.Equal(noon) {
		t.Errorf("a time in the future counts as %v, want now", got)
	}
	if got := Past(noon, time.Time{}); !got.IsZero() {
		t.Errorf("no time counts as %v", got)
	}
	if a, b, c := Count(-1), Count(5), Count(1<<40); a != 0 || b != 5 || c != MaxCount {
		t.Errorf("counts %d, %d and %d", a, b, c)
	}
	if got := Shortened(strings.Repeat("ü", MaxText)); len(got) > MaxText+len("…") || !strings.HasSuffix(got, "ü…") {
		t.Errorf("shortened to %q", got)
	}
	if got := Shortened("denied"); got != "denied" {
		t.Errorf("a short text became %q", got)
	}
}

func TestFailures_add_countsAndDoublesThePauseUpToItsMaximum(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var f Failures
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		f.Add(now, 10*time.Second, time.Minute)
		if f.Count != i+1 || f.Retry.Sub(now) != want {
			t.Errorf("failure %d: count %d, pause %v; want %v", i+1, f.Count, f.Retry.Sub(now), want)
		}
	}
}
