// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trend

import (
	"fmt"
	"math"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Message describes the growth of a container's memory, and when it reaches a bound: a field with an amount in bytes. Amounts are rounded, so the message
// changes rarely.
func (s *Suspicion) Message(container, field string, bound int64, now time.Time) string {
	var b strings.Builder
	perDay := cluster.Format(cluster.Memory, rounded(s.PerDay))
	if growing := now.Sub(s.Last) < 48*time.Hour; growing {
		fmt.Fprintf(&b, "Memory of container %s has grown by about %s a day since %s", container, perDay, s.Since.Format(time.DateOnly))
		if !s.Full.IsZero() {
			fmt.Fprintf(&b, ", and at this rate reaches its %s of %s about %s", field, cluster.Format(cluster.Memory, bound), s.Full.Format(time.DateOnly))
		}
	} else {
		fmt.Fprintf(&b, "Memory of container %s grew by about %s a day from %s to %s", container, perDay, s.Since.Format(time.DateOnly), s.Last.Format(time.DateOnly))
	}
	if s.Most > 0 {
		fmt.Fprintf(&b, "; leakBound of its profile limits its recommendation to %s until two weeks after the growth has stopped. If this growth is intended, raise leakBound or set minAllowed",
			cluster.Format(cluster.Memory, rounded(s.Most)))
	}
	return b.String() + "."
}

// rounded rounds bytes to two significant digits, in whole MiB from 1 MiB on.
func rounded(bytes float64) int64 {
	const mib = 1 << 20
	value := bytes
	unit := 1.0
	if bytes >= mib {
		value = bytes / mib
		unit = mib
	}
	step := math.Pow(10, max(math.Floor(math.Log10(max(value, 1)))-1, 0))
	return int64(math.Round(value/step) * step * unit)
}
