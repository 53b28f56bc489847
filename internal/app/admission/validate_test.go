// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Each flag is tested with the last value that is valid, and the first that is not.
func TestConfig_flagsAtTheirLimits_areAcceptedOrRejected(t *testing.T) {
	for flags, want := range map[string]string{ // the error; "" if the flags are valid
		"--port=0":                                     "",
		"--port=65535":                                 "",
		"--port=-1":                                    "--port must be between 0 and 65535, got -1",
		"--port=65536":                                 "--port must be between 0 and 65535, got 65536",
		"--webhook-timeout-seconds=1":                  "",
		"--webhook-timeout-seconds=30":                 "",
		"--webhook-timeout-seconds=0":                  "--webhook-timeout-seconds must be between 1 and 30, got 0",
		"--webhook-timeout-seconds=31":                 "--webhook-timeout-seconds must be between 1 and 30, got 31",
		"--min-tls-version=tls1_2":                     "",
		"--min-tls-version=tls1_3":                     "",
		"--min-tls-version=tls1_1":                     `--min-tls-version must be tls1_2 or tls1_3, got "tls1_1"`,
		"--register-by-url --webhook-address=10.0.0.1": "",
		"--webhook-address=10.0.0.1":                   "",
		"--register-by-url":                            "--register-by-url requires --webhook-address, the address at which the API server reaches the webhook",
		"--webhook-labels=":                            "",
		"--webhook-labels=team:shop,":                  "",
		"--webhook-labels=team":                        `--webhook-labels must be a list of key:value pairs, got "team"`,
		"--webhook-labels=:shop":                       `--webhook-labels must be a list of key:value pairs, got ":shop"`,
		"--status-lease-update-interval=1ns":           "",
		"--status-lease-update-interval=0s":            "--status-lease-update-interval must be greater than 0, got 0s",
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

// The webhook of a dry run on the machine of a user is reached only from there, unless the API server is told to call it.
func TestListenAddress_dryRunOutsideOfAPod_isLoopback(t *testing.T) {
	for name, tt := range map[string]struct {
		pod, webhookAddress string
		dryRun              bool
		want                string
	}{
		"dry run":                           {"", "", true, "127.0.0.1:8000"},
		"dry run, the API server has a way": {"", "10.0.0.7", true, ":8000"},
		"dry run in a pod":                  {"10.0.0.1", "", true, ":8000"},
		"not a dry run":                     {"", "", false, ":8000"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		c := Defaults()
		c.ReadOnly, c.WebhookAddress = tt.dryRun, tt.webhookAddress
		if got := c.listenAddress(); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}
