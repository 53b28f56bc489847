// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// amount formats an amount with its unit: "650m", or "1.4" cores, or "1.25 Gi". It has the digits that podfit recommend prints.
func amount(res cluster.Resource, v int64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case res == cluster.CPU && v >= 1000:
		return wording.Trimmed(float64(v)/1000, 2)
	case res == cluster.Memory && v >= 10*gib:
		return wording.Trimmed(float64(v)/gib, 1) + " Gi"
	case res == cluster.Memory && v >= gib:
		return wording.Trimmed(float64(v)/gib, 2) + " Gi"
	case res == cluster.Memory && v >= mib:
		return strconv.FormatInt((v+mib-1)/mib, 10) + " Mi"
	}
	text := strings.Replace(cluster.Format(res, v), ".0", "", 1)
	if res == cluster.Memory {
		if at := strings.IndexAny(text, "KMGT"); at > 0 {
			return text[:at] + " " + text[at:]
		}
		return text + " B"
	}
	return text
}

// totalText formats a sum over pods: "1.5 cores, 3 GiB". An amount too small for its unit has a smaller one, and one that is 0 is left out.
func totalText(r cluster.Resources) string {
	var parts []string
	switch {
	case r.CPU >= 100:
		parts = append(parts, number(float64(r.CPU)/1000)+" cores")
	case r.CPU > 0:
		parts = append(parts, amount(cluster.CPU, r.CPU))
	}
	switch {
	case r.Memory >= 100<<20:
		parts = append(parts, number(float64(r.Memory)/(1<<30))+" GiB")
	case r.Memory > 0:
		parts = append(parts, amount(cluster.Memory, r.Memory)+"B")
	}
	return strings.Join(parts, ", ")
}

// number formats a number with three significant digits, and thousands with a comma.
func number(v float64) string {
	switch {
	case v >= 100:
		return wording.Grouped(math.Round(v)) // a half is rounded up, not to the even number
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case v == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func ago(d time.Duration) string { return wording.Elapsed(d, "d") }
