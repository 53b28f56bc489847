// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surface

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app"
	"podfit.dev/podfit/test/contract"
)

func podfit(t *testing.T, name string) *pflag.FlagSet {
	t.Helper()
	c, _, err := app.Root(app.Streams{Out: io.Discard, Err: io.Discard}).Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c.Flags()
}

// Flags of klog without effect accept any value.
func withoutEffect(f *pflag.Flag) bool {
	return slices.Contains([]string{
		"add-dir-header", "alsologtostderrthreshold", "legacy-stderr-threshold-behavior", "log-backtrace-at", "log-dir", "log-file-max-size",
		"one-output", "skip-headers", "skip-log-headers", "stderrthreshold", "vmodule",
	}, f.Name)
}

// Values that podfit accepts differently from upstream, and why.
var otherwise = []struct {
	what, why string
	holds     func(f *pflag.Flag, value string, podfit, upstream bool) bool
}{
	{
		"an empty quantity is taken", "it says what the default says: no bound",
		func(f *pflag.Flag, v string, podfit, _ bool) bool {
			return f.Value.Type() == "quantity" && v == "" && podfit
		},
	},
	{
		"a negative quantity is refused", "no container can have less than nothing; upstream takes it for no bound",
		func(f *pflag.Flag, v string, podfit, _ bool) bool {
			return f.Value.Type() == "quantity" && strings.HasPrefix(v, "-") && !podfit
		},
	},
	{
		"--v in other spellings of numbers, and beyond 32 bits, is taken", "there is no harm in it",
		func(f *pflag.Flag, _ string, podfit, upstream bool) bool { return f.Name == "v" && podfit && !upstream },
	},
}

// expected reports whether the difference for a value is intended.
func expected(f *pflag.Flag, value string, podfit, upstream bool) bool {
	for _, o := range otherwise {
		if o.holds(f, value, podfit, upstream) {
			return true
		}
	}
	return false
}

// says normalizes the text of a parsed value.
func says(f *pflag.Flag, read string) string {
	switch {
	case f.Name == "feature-gates":
		return "" // upstream also prints the gates that AllAlpha enables; package app tests those
	case f.Value.Type() == "csv" || f.Name == "ignored-vpa-object-namespaces":
		return strings.TrimSpace(read) // a namespace has no white space in its name
	}
	return read
}

// byDefault returns a normalized default.
func byDefault(f *pflag.Flag, def string) string {
	switch {
	case f.Value.Type() == "quantity" && def == "":
		return "0" // means no limit
	case strings.HasSuffix(f.Name, "stderrthreshold") && (def == "" || def == "info"):
		return "0" // number of the severity in klog
	}
	return def
}

// TestFlags_values_areAcceptedAsUpstream sets every flag to every value in both implementations.
func TestFlags_values_areAcceptedAsUpstream(t *testing.T) {
	compared := 0
	for name := range parts {
		ours := podfit(t, name)
		for flag, theirs := range upstream(t, name).Flags {
			f := ours.Lookup(flag)
			if f == nil {
				t.Errorf("%s has no --%s", name, flag)
				continue
			}
			has := read(f)
			if byDefault(f, has.Default) != theirs.Default {
				t.Errorf("%s --%s defaults to %q, upstream's to %q", name, flag, has.Default, theirs.Default)
			}
			if has.NeedsNoValue != theirs.NeedsNoValue && !withoutEffect(f) {
				t.Errorf("%s --%s without a value: %t, upstream %t", name, flag, has.NeedsNoValue, theirs.NeedsNoValue)
			}
			for _, v := range values {
				compared++
				got, ok := has.Reads[v]
				want, should := theirs.Reads[v]
				switch {
				case withoutEffect(f):
					if should && !ok {
						t.Errorf("%s --%s=%s is refused, upstream accepts it", name, flag, v)
					}
				case ok != should && expected(f, v, ok, should):
				case ok != should:
					t.Errorf("%s --%s=%s: accepted %t (as %q), by upstream %t (as %q)", name, flag, v, ok, got, should, want)
				case says(f, got) != says(f, want):
					t.Errorf("%s --%s=%s is read as %q, by upstream as %q", name, flag, v, got, want)
				}
			}
		}
	}
	t.Logf("%d values compared", compared)
}

// The tables in test/contract equal upstream's flags and metrics. Tests of podfit compare podfit with these tables.
func TestContract_data_equalsUpstream(t *testing.T) {
	for name, part := range parts {
		c, ours := upstream(t, name), podfit(t, name)
		known := map[string]bool{}
		for _, f := range part.flags() {
			known[f.Name] = true
			if theirs, ok := c.Flags[f.Name]; !ok || theirs.Default != byDefault(ours.Lookup(f.Name), f.Default) {
				t.Errorf("%s: the contract has --%s with default %q, upstream %t %q", name, f.Name, f.Default, ok, theirs.Default)
			}
		}
		for flag := range c.Flags {
			if !known[flag] {
				t.Errorf("%s: the contract has no --%s", name, flag)
			}
		}
		metrics := map[string]contract.Metric{}
		for _, m := range part.metrics() {
			metrics[m.Name] = m
			theirs, ok := c.Metrics[m.Name]
			if !ok {
				t.Errorf("%s: upstream has no metric %s", name, m.Name)
				continue
			}
			if m.Type != theirs.Type || !slices.Equal(m.Labels, theirs.Labels) || !slices.Equal(m.Buckets, theirs.Buckets) {
				t.Errorf("%s: the contract has %+v, upstream %+v", name, m, theirs)
			}
		}
		for _, m := range slices.Sorted(maps.Keys(c.Metrics)) {
			if _, ok := metrics[m]; !ok {
				t.Errorf("%s: the contract has no metric %s", name, m)
			}
		}
	}
}
