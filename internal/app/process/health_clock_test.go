// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"
	"unsafe"
)

// withWallClockSet returns t as time.Now returns it at the same moment when the wall clock was set by a number of whole seconds:
// the monotonic reading stays. No API of package time makes such a value.
func withWallClockSet(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	out := at
	*(*uint64)(unsafe.Pointer(&out)) += uint64(by/time.Second) << 30 // the seconds of time.Time's field wall
	if out.Sub(at) != 0 || out.Round(0).Sub(at.Round(0)) != by {
		t.Fatalf("the layout of time.Time has changed: %v is not %v with a wall clock that was set by %v", out, at, by)
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
		"ahead, and the loop is alive": {time.Minute, time.Hour, true},
		"back, and the loop is alive":  {time.Minute, -time.Hour, true},
		"ahead, and the loop hangs":    {6 * time.Minute, time.Hour, false},
		"back, and the loop hangs":     {6 * time.Minute, -time.Hour, false},
	} {
		if err := h.Problem(withWallClockSet(t, active.Add(c.after), c.set)); (err == nil) != c.alive {
			t.Errorf("%s: %v", name, err)
		}
	}
}
