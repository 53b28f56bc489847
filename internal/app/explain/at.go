// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"
)

// parseAt returns the time of --at; "" is now.
func parseAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(d), nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at.In(now.Location()), nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("--at must be a time such as 2026-11-22T02:58:00Z or 02:58 (local time), or a difference such as -20m or +2h, got %q", text)
}
