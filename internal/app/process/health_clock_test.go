// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"
	"unsafe"
)

// withWallClockSet returns the value that time.Now would return at the same moment if the wall clock had been changed by a number of
// whole seconds: the monotonic reading stays the same. Package time has no function for this.
func withWallClockSet(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	out := at
	*(*uint64)(unsafe.Pointer(&out)) += uint64(by/time.Second) << 30 // the seconds of time.Time's field wall
	if out.Sub(at) != 0 || out.Round(0).Sub(at.Round(0)) != by {
		t.Fatalf("the layout of time.Time has changed: %v is not %v with a wall clock that was changed by %v", out, at, by)
	}
	return out
}

func TestHealth_wallClockChanged_doesNotAffectResult(t *testing.T) {
	active := time.Now()
	h := NewHealth(5 * time.Minute)
	h.Active(active)
	for name, c := range map[string]struct {
		after, set time.Duration
		alive      bool
	}{
		"set forward, loop is active": {time.Minute, time.Hour, true},
		"set back, loop is active":    {time.Minute, -time.Hour, true},
		"set forward, loop hangs":     {6 * time.Minute, time.Hour, false},
		"set back, loop hangs":        {6 * time.Minute, -time.Hour, false},
	} {
		if err := h.Problem(withWallClockSet(t, active.Add(c.after), c.set)); (err == nil) != c.alive {
			t.Errorf("%s: got error %v, want healthy %t", name, err, c.alive)
		}
	}
}
