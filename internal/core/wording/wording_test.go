// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"math"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestWording_values_areWrittenForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"0 pods":       Count(0, "pod"),
		"1 pod":        Count(1, "pod"),
		"1,200 pods":   Count(1200, "pod"),
		"-1,234,568":   Grouped(-1234567.8),
		"0":            Grouped(-0.4),
		"999":          Grouped(999.4),
		"1.5":          Trimmed(1.5, 2),
		"10":           Trimmed(10, 0),
		"1":            Trimmed(1.001, 2),
		"8 %":          Percent(0.08),
		"0 s":          Elapsed(-time.Second, "d"),
		"119 s":        Elapsed(119*time.Second, "d"),
		"119 min":      Elapsed(2*time.Hour-1, "d"),
		"47 h":         Elapsed(48*time.Hour-1, "d"),
		"2 days":       Elapsed(48*time.Hour, "days"),
		"deploy/web":   ShellWord("deploy/web"),
		"--for=2m":     ShellWord("--for=2m"),
		"''":           ShellWord(""),
		"'a b'":        ShellWord("a b"),
		`'it'\''s'`:    ShellWord("it's"),
		"'$(id)'":      ShellWord("$(id)"),
		"'a\nb'":       ShellWord("a\nb"),
		"'a;rm'":       ShellWord("a;rm"),
		"'café'":       ShellWord("café"),
		"2147483648.5": Trimmed(2147483648.5, 1),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// How the same amounts are written in each place.
func TestAmounts_eachForm_sameAmounts(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	forms := []func(cluster.Resource, int64) string{
		cluster.Format, Amount, func(r cluster.Resource, v int64) string { return Figure(r, float64(v)) }, Cell, Spaced, Total,
		func(r cluster.Resource, v int64) string { return Totals(cluster.Resources{}.Set(r, v)) },
		func(r cluster.Resource, v int64) string { return Measured(r, r.InUnits(v)) },
	}
	for _, c := range []struct {
		res  cluster.Resource
		v    int64
		want string
	}{
		{cluster.Memory, 3 * gi / 2, "1.5Gi, 1536Mi, 1536Mi, 1.5Gi, 1.5 Gi, 1.5 GiB, 1.5 GiB, 1.50 GiB"},
		{cluster.Memory, 2 * gi, "2Gi, 2Gi, 2Gi, 2.0Gi, 2 Gi, 2 GiB, 2 GiB, 2.00 GiB"},
		{cluster.Memory, 300 * mi, "300Mi, 300Mi, 300Mi, 300Mi, 300 Mi, 0.29 GiB, 0.29 GiB, 300 MiB"},
		{cluster.Memory, 49 * gi / 4, "12.2Gi, 12.2Gi, 12.2Gi, 12.2Gi, 12.2 Gi, 12 GiB, 12 GiB, 12.2 GiB"},
		{cluster.CPU, 350, "350m, 350m, 350m, 350m, 350m, 0.35 cores, 0.35 cores, 350m"},
		{cluster.CPU, 1500, "1500m, 1500m, 1500m, 1.5, 1.5 cores, 1.5 cores, 1.5 cores, 1.50 cores"},
		{cluster.CPU, 96_000, "96, 96, 96, 96, 96 cores, 96 cores, 96 cores, 96.00 cores"},
	} {
		var got []string
		for _, form := range forms {
			got = append(got, form(c.res, c.v))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s %d: %s, want %s", c.res, c.v, text, c.want)
		}
	}
}

// What is very small, very large or no number at all is readable, too.
func TestAmounts_extremes_areReadable(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	for _, c := range []struct{ got, want string }{
		{Figure(cluster.CPU, math.NaN()), "0"},
		{Figure(cluster.CPU, -5), "0"},
		{Figure(cluster.CPU, 2.25), "2.2m"},
		{Figure(cluster.CPU, 12_340), "12.3"},
		{Figure(cluster.CPU, 1_234_000), "1234"},
		{Figure(cluster.Memory, math.Inf(1)), "909.5Ti"},
		{Figure(cluster.Memory, 100), "100"},
		{Figure(cluster.Memory, 5<<10), "5Ki"},
		{Figure(cluster.Memory, 2.5*mi), "2.5Mi"},
		{Figure(cluster.Memory, 8*gi), "8Gi"},
		{Amount(cluster.Memory, 500), "500"},
		{Cell(cluster.Memory, 1), "1Mi"},
		{Spaced(cluster.CPU, 1000), "1 core"},
		{Spaced(cluster.Memory, 500), "500 B"},
		{Spaced(cluster.Memory, 5<<10), "5 Ki"},
		{Spaced(cluster.Memory, 12*gi), "12 Gi"},
		{Total(cluster.CPU, 3), "3m"},
		{Total(cluster.CPU, -3), "-3m"},
		{Total(cluster.Memory, 5*mi/2), "2.5 MiB"},
		{Total(cluster.Memory, 14*mi), "14 MiB"},
		{Total(cluster.CPU, 1_234_567), "1,235 cores"},
		{Totals(cluster.Amounts(50, 5*mi)), "0.05 cores, 5 MiB"},
		{Totals(cluster.Resources{}), ""},
		{Totals(cluster.Amounts(1_234_567, 12*gi)), "1,235 cores, 12 GiB"},
		{Number(0), "0"},
		{Measured(cluster.CPU, 0), "0 cores"},
		{Measured(cluster.CPU, 0.0025), "2.5m"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestOneLine_controlCharacters_areBlanks(t *testing.T) {
	if got := OneLine("a\nb\tc\x7f\u00e9"); got != "a b c \u00e9" {
		t.Errorf("got %q", got)
	}
}

func TestShortened_longText_isCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct{ text, want string }{{"abc", "abc"}, {"abcd", "abc\u2026"}, {"ab\u00e9", "ab\u2026"}, {"", ""}} {
		if got := Shortened(c.text, 3); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFill_names_becomeTheirValues(t *testing.T) {
	value := func(name string) string { return "<" + name + "{a}>" }
	for text, want := range map[string]string{
		"":           "",
		"no name":    "no name",
		"{a}{b c} d": "<a{a}><b c{a}> d",
		"x {a}.":     "x <a{a}>.",
		"x {a":       "x <a{a}>",
	} {
		if got := Fill(text, value); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestSpan_oneOrTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 42*time.Second + 400*time.Millisecond: "42s", 3*time.Minute + 59*time.Second: "4m", 90 * time.Second: "2m", 59*time.Second + 600*time.Millisecond: "1m", time.Hour: "1h",
		13*time.Hour + 30*time.Minute: "13h30m", 24*time.Hour - time.Second: "1d", 50 * time.Hour: "2d2h", -time.Second: "-1s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestList_manyNames_areCounted(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"},
	} {
		if got := List(names, 2); got != want {
			t.Errorf("%v: got %q, want %q", names, got, want)
		}
	}
}
