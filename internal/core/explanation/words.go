// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// count returns "1 pod" or "3 pods".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func have(n int, noun string) string { return count(n, noun) + " " + has(n) }

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// clock returns a time in the location of now, with its date if that is not today's.
func clock(now, at time.Time) string {
	at = at.In(now.Location())
	if now.Format(time.DateOnly) == at.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	if now.Sub(at).Abs() < 6*24*time.Hour {
		return at.Format("Mon 15:04")
	}
	return at.Format("2006-01-02 15:04")
}

// since returns a time with text before it, and "" if the time is not known.
func since(now time.Time, before string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return before + clock(now, at)
}

// amount returns a readable amount: memory in MiB below 10 GiB.
func amount(res cluster.Resource, v int64) string {
	const mi = 1 << 20
	const gi = 1 << 30
	switch {
	case res == cluster.Memory && v >= mi && v < 10*gi && v%gi != 0:
		return fmt.Sprintf("%.0fMi", float64(v)/mi)
	case res == cluster.Memory && v >= 10*gi && v%gi != 0:
		return fmt.Sprintf("%.1fGi", float64(v)/gi)
	}
	return cluster.Format(res, v)
}

func short(r cluster.Resources) string {
	return amount(cluster.CPU, r.CPU) + " CPU, " + amount(cluster.Memory, r.Memory)
}

// span returns a readable duration.
func span(d time.Duration) string {
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// quoted returns an argument for a shell.
func quoted(s string) string {
	safe := func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || r == '/' || r == '=' || r == ':' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	if s != "" && !strings.ContainsFunc(s, safe) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
