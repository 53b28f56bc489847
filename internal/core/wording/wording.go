// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package wording writes counts, numbers, shares, durations and words of commands in one way wherever people read them. It contains no sentences.
package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count returns a number and a noun, in the plural unless the number is 1: "1 pod", "1,200 pods".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Grouped(float64(n)) + " " + noun
}

// Form returns the word for one thing, or for several.
func Form(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// Grouped formats a number without decimals, with a comma between groups of three digits.
func Grouped(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if math.Round(v) < 0 {
		return "-" + s
	}
	return s
}

// Trimmed formats a number with at most n decimals.
func Trimmed(v float64, n int) string {
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Percent formats a share without decimals.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// Elapsed formats a duration, with a word for days: "38 s", "12 min", "5 h" or "3 d".
func Elapsed(d time.Duration, days string) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d %s", d/(24*time.Hour), days)
}

// OneLine replaces line breaks and other control characters, so that a text of others cannot imitate several lines of a message.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Shortened cuts a text to a number of bytes.
func Shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Span writes a duration with its one or two largest units: "42s", "3m", "13h30m", "2d5h".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d = d.Round(time.Second); d < time.Minute {
		return d.String()
	}
	d = d.Round(time.Minute)
	switch days, hours, minutes := d/day, d%day/time.Hour, d%time.Hour/time.Minute; {
	case days > 0 && hours > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case days > 0:
		return fmt.Sprintf("%dd", days)
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%dh", hours)
	default:
		return fmt.Sprintf("%dm", minutes)
	}
}

// List names things in a sentence: "a, b and c", or the first of many: "a, b and 3 more".
func List(names []string, most int) string {
	last := ""
	switch n := len(names); {
	case n > most+1:
		names, last = names[:most], fmt.Sprintf(" and %d more", n-most)
	case n > 1:
		names, last = names[:n-1], " and "+names[n-1]
	}
	return strings.Join(names, ", ") + last
}

// ShellWord returns a word of a command for a POSIX shell.
func ShellWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:="
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Fill replaces each {name} in a text by its value. It does not look for names in values.
func Fill(text string, value func(name string) string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		out.WriteString(value(name))
		text = after
	}
}
