// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Each flag is tested with the last value that is valid, and the first that is not.
func TestConfig_flagsAtTheirLimits_areAcceptedOrRejected(t *testing.T) {
	for flags, want := range map[string]string{ // the error; "" if the flags are valid
		"--updater-interval=1ns":                           "",
		"--updater-interval=0s":                            "--updater-interval must be greater than 0, got 0s",
		"--node-guard-pressure=0":                          "",
		"--node-guard-pressure=100":                        "",
		"--node-guard-pressure=-0.1":                       "--node-guard-pressure must be between 0 and 100, got -0.1",
		"--node-guard-pressure=100.1":                      "--node-guard-pressure must be between 0 and 100, got 100.1",
		"--node-guard-pressure=NaN":                        "--node-guard-pressure must be between 0 and 100, got NaN",
		"--eviction-tolerance=0":                           "",
		"--eviction-tolerance=1":                           "",
		"--eviction-tolerance=-0.1":                        "--eviction-tolerance must be between 0 and 1, got -0.1",
		"--eviction-tolerance=1.1":                         "--eviction-tolerance must be between 0 and 1, got 1.1",
		"--eviction-tolerance=NaN":                         "--eviction-tolerance must be between 0 and 1, got NaN",
		"--min-replicas=0":                                 "",
		"--min-replicas=-1":                                "--min-replicas must be at least 0, got -1",
		"--eviction-rate-limit=0 --eviction-rate-burst=0":  "",
		"--eviction-rate-limit=-1 --eviction-rate-burst=0": "",
		"--eviction-rate-limit=1 --eviction-rate-burst=1":  "",
		"--eviction-rate-limit=1 --eviction-rate-burst=0":  "--eviction-rate-burst must be at least 1 if --eviction-rate-limit is set, got 0",
		"--concurrent-cpu-startup-boost-syncs=1":           "",
		"--concurrent-cpu-startup-boost-syncs=0":           "--concurrent-cpu-startup-boost-syncs must be at least 1, got 0",
		"--pod-update-threshold=0":                         "",
		"--pod-update-threshold=-0.1":                      "--pod-update-threshold must be at least 0, got -0.1",
		"--pod-update-threshold=NaN":                       "--pod-update-threshold must be at least 0, got NaN",
	} {
		c := Defaults()
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		fs.SetNormalizeFunc(process.Dashes)
		c.Flags(fs)
		if err := fs.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		err := c.Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: error %v, want none", flags, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s: error %v, want %s", flags, err, want)
		}
	}
}
