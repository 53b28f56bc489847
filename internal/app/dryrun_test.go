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

// What a dry run means, all three jobs must know: the tests of each show what it does then.
func TestRun_dryRun_appliesToAllJobs(t *testing.T) {
	dry := runGiven(t, "--dry-run", "--leader-elect", "--register-by-url", "--webhook-address=10.0.0.1")
	for name, is := range map[string]bool{
		"the connection": dry.ReadOnly, "recommender": dry.Recommender.ReadOnly, "updater": dry.Updater.ReadOnly && dry.Updater.DryRun, "webhook": dry.Admission.ReadOnly,
	} {
		if !is {
			t.Errorf("%s does not know of it", name)
		}
	}
	if dry.Election.Enabled || dry.Admission.Register || dry.Updater.UseStatus {
		t.Errorf("it elects %t, registers %t, waits for the webhook %t", dry.Election.Enabled, dry.Admission.Register, dry.Updater.UseStatus)
	}
	wet := runGiven(t, "--leader-elect")
	if wet.ReadOnly || wet.Recommender.ReadOnly || wet.Admission.ReadOnly || !wet.Election.Enabled || !wet.Admission.Register || !wet.Updater.UseStatus {
		t.Error("without the flag it is a dry run")
	}
}
