// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

func runGiven(t *testing.T, flags ...string) *runConfig {
	t.Helper()
	c := runDefaults()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.share()
	return &c
}

// --dry-run must reach all three jobs. The tests of each job show its effect.
func TestRun_dryRun_appliesToAllJobs(t *testing.T) {
	dry := runGiven(t, "--dry-run", "--leader-elect", "--register-by-url", "--webhook-address=10.0.0.1")
	for name, is := range map[string]bool{
		"the connection": dry.ReadOnly, "recommender": dry.Recommender.ReadOnly, "updater": dry.Updater.ReadOnly && dry.Updater.DryRun, "webhook": dry.Admission.ReadOnly,
	} {
		if !is {
			t.Errorf("%s: --dry-run has no effect", name)
		}
	}
	if dry.Election.Enabled || dry.Admission.Register || dry.Updater.UseStatus {
		t.Errorf("got leader election %t, registration %t, requires the status lease %t", dry.Election.Enabled, dry.Admission.Register, dry.Updater.UseStatus)
	}
	wet := runGiven(t, "--leader-elect")
	if wet.ReadOnly || wet.Recommender.ReadOnly || wet.Admission.ReadOnly || !wet.Election.Enabled || !wet.Admission.Register || !wet.Updater.UseStatus {
		t.Error("without the flag: got a dry run")
	}
}
