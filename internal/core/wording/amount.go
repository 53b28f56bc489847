// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// How amounts are written, by where people read them. 1.5 GiB is
//
//	1536Mi     Amount, Figure  explanations; up to 10 GiB without a decimal, so that they can be compared
//	1.5Gi      Cell            tables on a terminal
//	1.5 Gi     Spaced          the page
//	1.5 GiB    Total, Totals   sums over pods, capacity plans
//	1.50 GiB   Measured        results of backtests
//	1536Mi     cluster.Quantity manifests: exact
//	1.5Gi      cluster.Format  requests in reasons, logs and events

// Name returns the name of a resource in a sentence.
func Name(res cluster.Resource) string { return cluster.Pick(res, "CPU", res.String()) }

// Amount returns a readable amount: memory in MiB below 10 GiB.
func Amount(res cluster.Resource, v int64) string {
	switch {
	case res == cluster.Memory && v >= mi && v < 10*gi && v%gi != 0:
		return fmt.Sprintf("%dMi", (v+mi-1)/mi) // as Cell and Spaced do
	case res == cluster.Memory && v >= 10*gi && v%gi != 0:
		return fmt.Sprintf("%.1fGi", float64(v)/gi)
	}
	return cluster.Format(res, v)
}

// Figure returns an amount for a person: CPU in millicores or cores, memory in MiB with three digits at least, GiB from 10 GiB on.
func Figure(res cluster.Resource, v float64) string {
	if math.IsNaN(v) || v < 0 {
		v = 0
	}
	v = min(v, 1e15)
	switch {
	case res == cluster.CPU && v < 10 && v != math.Trunc(v):
		return Trimmed(v, 1) + "m"
	case res == cluster.CPU && v < 10_000:
		return cluster.Format(res, int64(math.Round(v)))
	case res == cluster.CPU && v >= 1e6:
		return Trimmed(v/1000, 0)
	case res == cluster.CPU:
		return Trimmed(v/1000, 1)
	case v >= 1000*gi:
		return Trimmed(v/(1<<40), 1) + "Ti"
	case v >= 10*gi:
		return Trimmed(v/gi, 1) + "Gi"
	case v == gi || v == 2*gi || v == 4*gi || v == 8*gi:
		return Trimmed(v/gi, 0) + "Gi"
	case v >= 100*mi:
		return Trimmed(math.Ceil(v/mi), 0) + "Mi"
	case v >= mi:
		return Trimmed(v/mi, 1) + "Mi"
	case v >= 1<<10:
		return Trimmed(v/(1<<10), 0) + "Ki"
	}
	return Trimmed(v, 0)
}

// Cell formats an amount for people, with about three digits.
func Cell(res cluster.Resource, v int64) string {
	switch {
	case res == cluster.CPU && v >= 1000:
		return Trimmed(float64(v)/1000, 2)
	case res == cluster.CPU:
		return cluster.Format(res, v)
	case v >= 10*gi:
		return Trimmed(float64(v)/gi, 1) + "Gi"
	case v >= gi:
		return strings.TrimSuffix(strconv.FormatFloat(float64(v)/gi, 'f', 2, 64), "0") + "Gi" // one or two decimals
	}
	return strconv.FormatInt((v+1<<20-1)>>20, 10) + "Mi"
}

// Spaced formats an amount with its unit: "650m", "1.4 cores" or "1.25 Gi". It has the digits that podfit recommend prints.
func Spaced(res cluster.Resource, v int64) string {
	switch {
	case res == cluster.CPU && v == 1000:
		return "1 core"
	case res == cluster.CPU && v > 1000:
		return Trimmed(float64(v)/1000, 2) + " cores"
	case res == cluster.Memory && v >= 10*gi:
		return Trimmed(float64(v)/gi, 1) + " Gi"
	case res == cluster.Memory && v >= gi:
		return Trimmed(float64(v)/gi, 2) + " Gi"
	case res == cluster.Memory && v >= mi:
		return strconv.FormatInt((v+mi-1)/mi, 10) + " Mi"
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

// Total formats a sum over pods: "96 cores", "210 GiB". An amount that would be rounded to 0 has its smaller unit.
func Total(res cluster.Resource, v int64) string {
	value := float64(v) / cluster.Pick(res, 1000.0, gi)
	unit := cluster.Pick(res, " cores", " GiB")
	switch small := max(v, -v); {
	case res == cluster.CPU && small > 0 && small < 5:
		return strconv.FormatInt(v, 10) + "m"
	case res == cluster.Memory && small > 0 && small < 100*mi:
		return Trimmed(float64(v)/mi, 1) + " MiB"
	case math.Abs(value) >= 10:
		return Grouped(value) + unit
	}
	text := Trimmed(value, 2)
	if text == "1" && res == cluster.CPU {
		unit = " core"
	}
	return text + unit
}

// Totals formats a sum over pods: "1.5 cores, 3 GiB". An amount that is 0 is left out.
func Totals(r cluster.Resources) string {
	var parts []string
	for _, res := range cluster.All {
		if v := r.Amount(res); v > 0 {
			parts = append(parts, Total(res, v))
		}
	}
	return strings.Join(parts, ", ")
}

// Number formats a number with three significant digits, and thousands with a comma.
func Number(v float64) string {
	switch {
	case v >= 100:
		return Grouped(math.Round(v)) // a half is rounded up, not to the even number
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case v == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Measured formats cores or bytes with a unit.
func Measured(res cluster.Resource, v float64) string {
	switch {
	case res == cluster.CPU && v == 0:
		return "0 cores"
	case res == cluster.CPU && v < 0.01:
		return strconv.FormatFloat(1000*v, 'f', 1, 64) + "m"
	case res == cluster.CPU && v < 1:
		return strconv.FormatFloat(1000*v, 'f', 0, 64) + "m"
	case res == cluster.CPU:
		return strconv.FormatFloat(v, 'f', 2, 64) + " cores"
	case v >= 10<<30:
		return strconv.FormatFloat(v/(1<<30), 'f', 1, 64) + " GiB"
	case v >= 1<<30:
		return strconv.FormatFloat(v/(1<<30), 'f', 2, 64) + " GiB"
	}
	return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + " MiB"
}
