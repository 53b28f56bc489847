// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// form returns the word for one thing, or for several.
func form(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
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

func short(r cluster.Resources) string {
	return wording.Amount(cluster.CPU, r.CPU) + " CPU, " + wording.Amount(cluster.Memory, r.Memory)
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

// day returns the date of a time, UTC.
func day(at time.Time) string { return at.UTC().Format("Mon 2 Jan") }

// moment returns a time to the minute, UTC.
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

// kubectl returns a command in the namespace of the subject.
func (in *Input) kubectl(words ...string) string {
	ns := in.Workload.Namespace
	if ns == "" && in.Autoscaler != nil {
		ns = in.Autoscaler.Namespace
	}
	if ns == "" && len(in.Pods) > 0 {
		ns = in.Pods[0].Namespace
	}
	return kubectl(ns, words...)
}

// kubectl returns a command in a namespace, or without one.
func kubectl(namespace string, words ...string) string {
	out := "kubectl"
	if namespace != "" {
		words = append([]string{"-n", namespace}, words...)
	}
	for _, word := range words {
		out += " " + wording.ShellWord(word)
	}
	return out
}

// patchOf returns the command that merges a patch into a VPA.
func patchOf(a *cluster.Autoscaler, with string) string {
	return kubectl(a.Namespace, "patch", "vpa", a.Name, "--type", "merge", "-p", with)
}
