// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Certificates in the cluster and the status lease, which shows updaters that new pods get their size, are only written if the API
// server may call the webhook. An administrator who registers the webhook provides certificate files, or runs podfit behind the
// service of the registration.
func TestConfig_flagsAndEnvironment_decideWhatIsWrittenAndDeleted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cert", "key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"--tls-cert-file=" + filepath.Join(dir, "cert"), "--tls-private-key=" + filepath.Join(dir, "key")}
	none := []string{"--tls-cert-file=" + filepath.Join(dir, "none"), "--tls-private-key=" + filepath.Join(dir, "none")}
	byURL := append([]string{"--register-by-url", "--webhook-address=10.0.0.1"}, none...)
	off := []string{"--register-webhook=false"}
	join := func(lists ...[]string) (out []string) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	const (
		atOnce   = time.Duration(0)
		watched  = 250 * time.Millisecond
		outside  = 3 * time.Second
		endpoint = 10 * time.Second
	)
	for name, c := range map[string]struct {
		flags                  []string
		dryRun, pod            bool
		standalone, unregister bool
		delay                  time.Duration
		log                    string // what logSetup logs
	}{
		"registers a service, outside of the cluster":       {flags: none, delay: outside, log: "registered with a Service, but"},
		"registers a service, in a pod":                     {flags: none, pod: true, delay: endpoint},
		"registers a URL":                                   {flags: byURL, unregister: true, delay: watched},
		"registers a URL, in a pod":                         {flags: byURL, pod: true, delay: endpoint},
		"registers a URL, failure policy Fail":              {flags: join([]string{"--webhook-failure-policy-fail"}, byURL), delay: outside},
		"registered by others, with certificate files":      {flags: join(off, files), delay: outside},
		"registered by others, in a pod":                    {flags: join(off, none), pod: true, delay: endpoint},
		"not registered":                                    {flags: join(off, none), standalone: true, delay: atOnce, log: "does not call this webhook"},
		"not registered, with a URL":                        {flags: join(off, byURL), standalone: true, delay: atOnce, log: "does not call this webhook"},
		"not registered, in a pod of another cluster":       {flags: join(off, none, []string{"--kubeconfig=theirs"}), pod: true, standalone: true, delay: atOnce, log: "does not call this webhook"},
		"dry run, with certificate files":                   {flags: files, dryRun: true, standalone: true, delay: atOnce},
		"dry run, registered by others, in a pod":           {flags: join(off, none), dryRun: true, pod: true, standalone: true, delay: atOnce},
		"dry run, with a URL that is not registered by now": {flags: byURL, dryRun: true, standalone: true, delay: atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			if c.pod {
				t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
				t.Setenv("KUBERNETES_SERVICE_PORT", "443")
			}
			config := parse(t, c.flags...)
			if c.dryRun { // as podfit run --dry-run sets it
				config.ReadOnly = true
				config.Register = false
			}
			standalone, err := config.standalone()
			if err != nil || standalone != c.standalone {
				t.Errorf("standalone: got %t, %v, want %t", standalone, err, c.standalone)
			}
			if got := config.unregisters(); got != c.unregister {
				t.Errorf("unregisters: got %t, want %t", got, c.unregister)
			}
			if got := config.shutdownDelay(standalone); got != c.delay {
				t.Errorf("shutdown delay: got %v, want %v", got, c.delay)
			}
			var log bytes.Buffer
			config.logSetup(slog.New(slog.NewTextHandler(&log, nil)), standalone)
			if text := log.String(); !strings.Contains(text, c.log) || c.log == "" && text != "" {
				t.Errorf("log: got %q, want %q", text, c.log)
			}
		})
	}
}

func TestConfig_registerByURL_usesTheWebhookPortOrThePort(t *testing.T) {
	for want, flags := range map[string][]string{
		"":                      nil,
		"https://10.0.0.1:8000": {"--register-by-url", "--webhook-address=10.0.0.1"},
		"https://10.0.0.1:9443": {"--register-by-url", "--webhook-address=10.0.0.1", "--port=9443"},
		"https://10.0.0.1:443":  {"--register-by-url", "--webhook-address=10.0.0.1", "--port=9443", "--webhook-port=443"},
	} {
		config := parse(t, flags...)
		got, err := config.registration("kube-system")
		if err != nil || got.URL != want {
			t.Errorf("flags %v: got URL %q, %v, want %q", flags, got.URL, err, want)
		}
		if got.Service.Namespace != "kube-system" || got.Service.Name != "vpa-webhook" {
			t.Errorf("flags %v: got service %s", flags, got.Service)
		}
	}
}

func parse(t *testing.T, args ...string) Config {
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
