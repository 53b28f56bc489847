// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSet_flagsOfADeployment_applyUnlessGivenOrUnusable(t *testing.T) {
	newFlags := func() *pflag.FlagSet {
		fs := pflag.NewFlagSet("updater", pflag.ContinueOnError)
		fs.Int("min-replicas", 2, "")
		fs.String("hpa", "leave", "")
		fs.Bool("dry-run", false, "")
		return fs
	}
	const defaults = "all that matter here have their defaults"
	for words, want := range map[string]string{
		"":                                     defaults,
		"updater --min-replicas=1":             "--min-replicas=1",
		"--min-replicas 1 --hpa ignore":        "--min-replicas=1 --hpa=ignore",
		"-min_replicas 1":                      "--min-replicas=1",
		"--dry-run --min-replicas=1":           "--dry-run=true --min-replicas=1",
		"--dry-run=false":                      "--dry-run=false",
		"--unknown --min-replicas=1":           "--min-replicas=1",
		"min-replicas 1 hpa":                   defaults,
		"--min-replicas=$(REPLICAS)":           defaults,
		"--min-replicas=many --hpa=ignore":     "--hpa=ignore",
		"--min-replicas":                       defaults,
		"--min-replicas=1 given --hpa=ignore":  "--min-replicas=1",
		"--min-replicas=1 absent --hpa=ignore": "--min-replicas=1",
	} {
		c := Config{given: newFlags()}
		of := newFlags()
		if strings.Contains(words, "given") {
			if err := c.given.Set("hpa", "leave"); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(words, "absent") {
			c.given = pflag.NewFlagSet("explain", pflag.ContinueOnError)
			c.given.Int("min-replicas", 2, "")
		}
		if got := c.set(strings.Fields(words), of); got != want {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
		if f := c.given.Lookup("min-replicas"); f.Changed != strings.Contains(want, "--min-replicas") {
			t.Errorf("%q: --min-replicas is %s", words, f.Value)
		}
	}
}
