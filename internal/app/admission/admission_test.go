// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// Certificates in the cluster, and the status lease by which updaters know that new pods are sized, are those of a webhook
// that somebody may call. An administrator who registers it has made certificates for it, or runs it behind the service.
func TestAWebhookThatNobodyCallsLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cert", "key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"--tls-cert-file=" + filepath.Join(dir, "cert"), "--tls-private-key=" + filepath.Join(dir, "key")}
	none := []string{"--tls-cert-file=" + filepath.Join(dir, "none"), "--tls-private-key=" + filepath.Join(dir, "none")}
	byURL := []string{"--register-by-url", "--webhook-address=10.0.0.1"}
	for name, c := range map[string]struct {
		flags                      []string
		dry, pod, alone, takesBack bool
	}{
		"registers by service":                      {flags: none},
		"registers by service, in a pod":            {flags: none, pod: true},
		"registers by URL":                          {flags: append(byURL, none...), takesBack: true},
		"registers by URL, in a pod":                {flags: append(byURL, none...), pod: true},
		"registers by URL, pods are refused":        {flags: append([]string{"--webhook-failure-policy-fail"}, append(byURL, none...)...)},
		"registered elsewhere, with certificates":   {flags: append([]string{"--register-webhook=false"}, files...)},
		"registered elsewhere, in a pod":            {flags: append([]string{"--register-webhook=false"}, none...), pod: true},
		"not registered":                            {flags: append([]string{"--register-webhook=false"}, none...), alone: true},
		"not registered, by URL":                    {flags: append([]string{"--register-webhook=false"}, append(byURL, none...)...), alone: true},
		"not registered, in a pod of another":       {flags: append([]string{"--register-webhook=false", "--kubeconfig=theirs"}, none...), pod: true, alone: true},
		"a dry run, with certificates":              {flags: files, dry: true, alone: true},
		"a dry run, registered elsewhere, in a pod": {flags: append([]string{"--register-webhook=false"}, none...), dry: true, pod: true, alone: true},
		"a dry run, to be registered by URL":        {flags: append(byURL, none...), dry: true, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			if c.pod {
				t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
				t.Setenv("KUBERNETES_SERVICE_PORT", "443")
			}
			a := given(t, c.flags...)
			if c.dry { // as podfit run settles it
				a.ReadOnly, a.Register = true, false
			}
			alone, err := a.standalone(registration.Files{CA: a.ClientCAFile, Cert: a.CertFile, Key: a.KeyFile})
			if err != nil || alone != c.alone {
				t.Errorf("nobody calls it: %t, %v", alone, err)
			}
			if got := a.unregisters(); got != c.takesBack {
				t.Errorf("it takes its registration back: %t", got)
			}
		})
	}
}

func given(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}
