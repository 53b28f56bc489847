// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"os"
	"testing"
	"time"
)

// tools/test-clock shifts the clock of the tests. Without this test it could fail to, and nobody would notice.
func TestClock_shiftedByTestClock_isAtItsMomentInItsTimeZone(t *testing.T) {
	want := os.Getenv("PODFIT_CLOCK")
	if want == "" {
		t.Skip("the clock is not shifted")
	}
	moment, err := time.ParseInLocation("2006-01-02T15:04:05", want, time.Local)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation(os.Getenv("TZ"))
	if err != nil {
		t.Fatal(err)
	}
	if now := time.Now(); now.Before(moment) || now.Sub(moment) > 10*time.Minute || now.Format("-0700") != now.In(zone).Format("-0700") {
		t.Errorf("the clock is at %s, want %s %s", now, want, zone)
	}
}
