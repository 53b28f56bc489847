// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
)

// kubeconfigOf writes a kubeconfig for a server and returns its path.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	return kubetest.Context{User: "jane"}.Kubeconfig(t, server)
}

// In a pod and under a supervisor, the process waits for the API server. On a terminal and in a dry run, a person waits for an error, also if
// the log goes to a pipe. Row 5 of docs/decisions/0007.
func TestConnect_unusableCluster_failsOnATerminalAndInATrial(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+kubetest.AutoscalersPath, http.StatusNotFound, "404 page not found")
	c := CommonDefaults()
	c.Kubeconfig = kubeconfigOf(t, f.URL())
	c.As = "joe"
	for name, tt := range map[string]struct{ terminal, dryRun, pod, fails bool }{
		"supervised":        {},
		"terminal":          {terminal: true, fails: true},
		"dry run in a pipe": {dryRun: true, fails: true},
		"dry run in a pod":  {dryRun: true, pod: true},
	} {
		if tt.pod {
			t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
			t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		} else {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
		}
		before := len(f.Log())
		p := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		p.Terminal, c.ReadOnly = tt.terminal, tt.dryRun
		_, _, err := c.Connect(t.Context(), p, "test", watcher.Options{})
		if failed := err != nil && strings.Contains(err.Error(), "install the CRDs"); failed != tt.fails {
			t.Errorf("%s: got the error %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "cannot use the cluster at "+f.URL()+" (context c, user jane, as joe): ") {
			t.Errorf("the error does not name the server and the user: %v", err)
		}
		if n := len(f.Log()) - before; (n > 0) != tt.fails {
			t.Errorf("%s: %d requests were sent", name, n)
		}
	}
}

// emptySettings is a configuration with the flag --address only.
type emptySettings struct{ address string }

func (c *emptySettings) Flags(fs *pflag.FlagSet) { fs.StringVar(&c.address, "address", c.address, "") }
func (c *emptySettings) Validate() error         { return nil }

// A dry run on the machine of a user is reached only from there, unless its address is given. In a pod, probes and Prometheus connect.
func TestLongRunning_dryRunOutsideOfAPod_listensOnLoopback(t *testing.T) {
	for name, tt := range map[string]struct {
		pod    string
		dryRun bool
		args   []string
		want   string // the host on which metrics are served
	}{
		"dry run":                      {"", true, nil, "127.0.0.1:"},
		"dry run, address is given":    {"", true, []string{"--address=:0"}, "[::]:"},
		"dry run in a pod":             {"10.0.0.1", true, nil, "[::]:"},
		"not a dry run":                {"", false, nil, "[::]:"},
		"not a dry run, host is given": {"", false, []string{"--address=127.0.0.1:0"}, "127.0.0.1:"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		ctx, cancel := context.WithCancel(t.Context())
		served := &untilLine{pattern: regexp.MustCompile(`Serving metrics and health" address=(\S+)`), found: cancel}
		settings, common := &emptySettings{address: ":0"}, CommonDefaults()
		c := LongRunning{
			Use: "test", Config: settings, Common: func() *Common { return &common }, Address: func() string { return settings.address },
			Prepare: func(context.Context, *Process) (func(context.Context) error, error) {
				common.ReadOnly = tt.dryRun
				return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
			},
		}.Command(Streams{Err: served})
		c.SetArgs(tt.args)
		err := c.ExecuteContext(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		text := served.written()
		if found := served.pattern.FindStringSubmatch(text); len(found) != 2 || !strings.HasPrefix(found[1], tt.want) {
			t.Errorf("%s: got %q, want %s in\n%s", name, found, tt.want, text)
		}
	}
}

// untilLine keeps what is written, and calls found when it contains a pattern.
type untilLine struct {
	mu      sync.Mutex
	text    bytes.Buffer
	pattern *regexp.Regexp
	found   func()
}

func (u *untilLine) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.text.Write(p)
	if u.pattern.Match(u.text.Bytes()) {
		u.found()
	}
	return len(p), nil
}

// written returns what is written. The message about the end of the process may still be written when the command has returned.
func (u *untilLine) written() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.String()
}

// Row 7 of docs/decisions/0007.
func TestConnect_noVPAsAndTerminal_logsIt(t *testing.T) {
	var out bytes.Buffer
	p := New(slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry())
	p.Terminal = true
	c := CommonDefaults()
	c.Kubeconfig = kubeconfigOf(t, kubetest.NewFakeAPI(t).URL())
	if _, _, err := c.Connect(t.Context(), p, "test", watcher.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No VPA objects found", "try podfit recommend"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log is %q, want %q in it", out.String(), want)
		}
	}
}

func TestLogConfig_terminal_logsPlainTextUnlessTheFormatIsGiven(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for name, tt := range map[string]struct {
		args     []string
		terminal bool
		want     string
	}{
		"terminal":                  {nil, true, "INF Using the cluster server=here\n"},
		"terminal, format is given": {[]string{"--log-format=text"}, true, `level=INFO msg="Using the cluster" server=here`},
		"terminal, json":            {[]string{"--log-format=json"}, true, `"msg":"Using the cluster","server":"here"`},
		"not a terminal":            {nil, false, `level=INFO msg="Using the cluster" server=here`},
	} {
		c := LogDefaults()
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		c.Flags(fs)
		if err := fs.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log, closer, err := c.Open(&out, tt.terminal)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("Using the cluster", slog.String("server", "here"))
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: got %q, want %q in it", name, out.String(), tt.want)
		}
	}
}
