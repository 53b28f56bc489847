// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// amount formats an amount with its unit: "650m", or "1.4" cores, or "1.25 Gi". It has the digits that podfit recommend prints.
func amount(res cluster.Resource, v int64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case res == cluster.CPU && v >= 1000:
		return trimmed(float64(v)/1000, 2)
	case res == cluster.Memory && v >= 10*gib:
		return trimmed(float64(v)/gib, 1) + " Gi"
	case res == cluster.Memory && v >= gib:
		return trimmed(float64(v)/gib, 2) + " Gi"
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

// trimmed formats a number with at most n decimals.
func trimmed(v float64, n int) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', n, 64), "0"), ".")
}

// exact formats an amount for a manifest, without rounding.
func exact(res cluster.Resource, v int64) string {
	if res == cluster.CPU {
		return cluster.Format(res, v)
	}
	for _, unit := range [...]struct {
		name string
		size int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if v != 0 && v%unit.size == 0 {
			return strconv.FormatInt(v/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(v, 10)
}

// number formats a number with three significant digits, and thousands with a comma.
func number(v float64) string {
	switch {
	case v >= 100:
		return thousands(int64(math.Round(v)))
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case v == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func thousands(v int64) string {
	text := strconv.FormatInt(v, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(int64(n)) + " " + noun + "s"
}

// ago formats a duration: "38 s", "12 min", "5 h" or "3 d".
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:", r)
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
