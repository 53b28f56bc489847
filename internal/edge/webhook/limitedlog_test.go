// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A logger with attributes or a group is the same log: all of them share one limit.
func TestLimitedLog_attributesAndGroups_doNotLiftTheLimit(t *testing.T) {
	var text strings.Builder
	log := slog.New(limitedLog{slog.NewTextHandler(&text, nil), &rate.Sometimes{First: 3, Interval: time.Hour}})
	for range 5 {
		log.Info("Message")
		log.With(slog.String("pod", "web")).Info("Message")
		log.WithGroup("vpa").Info("Message", slog.String("container", "web"))
	}
	if n := strings.Count(text.String(), "\n"); n != 3 || strings.Count(text.String(), "pod=web") != 1 || strings.Count(text.String(), "vpa.container=web") != 1 {
		t.Errorf("%d messages, want 3, one with the attribute and one with the group:\n%s", n, text.String())
	}
}
