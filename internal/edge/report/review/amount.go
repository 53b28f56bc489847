// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"math"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// shortAmount formats an amount for people, with about three digits.
func shortAmount(res cluster.Resource, v int64) string {
	const gib = 1 << 30
	switch {
	case res == cluster.CPU && v >= 1000:
		return wording.Trimmed(float64(v)/1000, 2)
	case res == cluster.CPU:
		return cluster.Format(res, v)
	case v >= 10*gib:
		return wording.Trimmed(float64(v)/gib, 1) + "Gi"
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

// total formats a sum over pods: "96 cores", "210 GiB". An amount that would be rounded to 0 has its smaller unit.
func total(res cluster.Resource, v int64) string {
	switch small := max(v, -v); {
	case res == cluster.CPU && small > 0 && small < 5:
		return strconv.FormatInt(v, 10) + "m"
	case res == cluster.Memory && small > 0 && small < 10<<20:
		return wording.Trimmed(float64(v)/(1<<20), 2) + " MiB"
	}
	if res == cluster.CPU {
		cores := float64(v) / 1000
		if math.Abs(cores) >= 10 {
			return wording.Grouped(cores) + " cores"
		}
		return wording.Trimmed(cores, 2) + " cores"
	}
	gib := float64(v) / (1 << 30)
	if math.Abs(gib) >= 10 {
		return wording.Grouped(gib) + " GiB"
	}
	return wording.Trimmed(gib, 2) + " GiB"
}

// price formats money, without decimals unless it is small.
func price(v float64) string {
	if math.Abs(v) < 10 && math.Abs(v) >= 0.005 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return wording.Grouped(v)
}
