// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"
)

func TestParseAt_eachForm_isTheTimeInTheZoneOfTheUser(t *testing.T) {
	zone := time.FixedZone("zone", 2*60*60)
	now := time.Date(2026, 11, 22, 14, 30, 15, 0, zone)
	for text, want := range map[string]string{
		"":                          "2026-11-22T14:30:15+02:00",
		"-20m":                      "2026-11-22T14:10:15+02:00",
		"+2h":                       "2026-11-22T16:30:15+02:00",
		"2026-11-22T02:58:00Z":      "2026-11-22T04:58:00+02:00",
		"2026-11-21T02:58:00-05:00": "2026-11-21T09:58:00+02:00",
		"2026-11-21 02:58":          "2026-11-21T02:58:00+02:00",
		"2026-11-21T02:58":          "2026-11-21T02:58:00+02:00",
		"02:58":                     "2026-11-22T02:58:00+02:00",
		"02:58:31":                  "2026-11-22T02:58:31+02:00",
	} {
		got, err := parseAt(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("--at=%q: got %v and error %v, want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"2h", "yesterday", "25:00", "-", "+x", "2026-13-01T00:00:00Z"} {
		if got, err := parseAt(text, now); err == nil {
			t.Errorf("--at=%q: got %v, want an error", text, got)
		}
	}
}
