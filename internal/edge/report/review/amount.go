// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// shortAmount formats an amount for people, with about three digits.
func shortAmount(res cluster.Resource, v int64) string {
	const gib = 1 << 30
	switch {
	case res == cluster.CPU && v >= 1000:
		return trimmed(float64(v)/1000, 2)
	case res == cluster.CPU:
		return cluster.Format(res, v)
	case v >= 10*gib:
		return trimmed(float64(v)/gib, 1) + "Gi"
	case v >= gib:
		return withDecimal(float64(v)/gib) + "Gi"
	}
	return strconv.FormatInt((v+1<<20-1)>>20, 10) + "Mi"
}

// withDecimal formats a number with one or two decimals.
func withDecimal(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(s, "0")
}

// trimmed formats a number with at most n decimals.
func trimmed(v float64, n int) string {
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// total formats a sum over pods: "96 cores", "210 GiB".
func total(res cluster.Resource, v int64) string {
	if res == cluster.CPU {
		cores := float64(v) / 1000
		if math.Abs(cores) >= 10 {
			return grouped(cores) + " cores"
		}
		return trimmed(cores, 2) + " cores"
	}
	gib := float64(v) / (1 << 30)
	if math.Abs(gib) >= 10 {
		return grouped(gib) + " GiB"
	}
	return trimmed(gib, 2) + " GiB"
}

// grouped formats a number without decimals, with a comma between groups of three digits.
func grouped(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if math.Round(v) < 0 {
		return "-" + s
	}
	return s
}

// price formats money, without decimals unless it is small.
func price(v float64) string {
	if math.Abs(v) < 10 && v != 0 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return grouped(v)
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// count returns a number and a noun, in the plural unless the number is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped(float64(n)) + " " + noun
}
