// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// peak formats a stored peak. It is rounded up by at most 0.07 % (hourly.Level), so the middle of this range is shown.
func peak(res cluster.Resource, v float64) string { return wording.Figure(res, v*(1-0.00034)) }

func number(v float64) string { return wording.Trimmed(v, 1) }

// plural returns "1 day" or "7 days".
func plural(v float64, noun string) string {
	if v == 1 {
		return "1 " + noun
	}
	return number(v) + " " + noun + "s"
}

// percent has a decimal, and two digits below a tenth.
func percent(share float64) string {
	if math.Abs(share) > 0 && math.Abs(share) < 0.0005 {
		return strconv.FormatFloat(100*share, 'g', 2, 64) + " %"
	}
	return wording.Trimmed(100*share, 1) + " %"
}

func signed(share float64) string {
	if share < 0 {
		return "−" + percent(-share)
	}
	return "+" + percent(share)
}

func day(at time.Time) string { return at.UTC().Format("Mon 2 Jan") }

func moment(at time.Time) string { return at.UTC().Format("Mon 2 Jan 15:04") }

// hoursOfDay returns a range of hours of the day.
func hoursOfDay(first, count int) string {
	if count <= 0 || count >= 24 {
		return "all hours"
	}
	return fmt.Sprintf("%d hours from %d h UTC on", count, first)
}

// duration returns hours up to two days, days above.
func duration(d time.Duration) string {
	if d <= 48*time.Hour {
		return wording.Trimmed(d.Hours(), 1) + " h"
	}
	return wording.Trimmed(d.Hours()/24, 1) + " days"
}
