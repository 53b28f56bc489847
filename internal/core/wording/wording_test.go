// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"testing"
	"time"
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
