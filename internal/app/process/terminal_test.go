// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// kubeconfigOf writes a kubeconfig for a server and returns its path.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + server + `"}}],"users":[{"name":"jane","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"jane"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// In a pod, the process waits for the API server. On a terminal, a person waits for an error. Row 5 of docs/decisions/0007.
func TestConnect_unusableCluster_failsOnlyOnATerminal(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.NotFound(w, r)
	}))
	defer server.Close()
	c := CommonDefaults()
	c.Kubeconfig = kubeconfigOf(t, server.URL)
	c.As = "joe"
	for _, terminal := range []bool{false, true} {
		p := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		p.Terminal = terminal
		_, err := c.Connect(t.Context(), p, "test")
		if failed := err != nil && strings.Contains(err.Error(), "install the CRDs"); failed != terminal {
			t.Errorf("terminal %t: got the error %v", terminal, err)
		}
		if err != nil && !strings.Contains(err.Error(), "cannot use the cluster at "+server.URL+" (context c, user jane, as joe): ") {
			t.Errorf("the error does not name the server and the user: %v", err)
		}
		if sent := requests.Load() > 0; sent != terminal {
			t.Errorf("terminal %t: %d requests were sent", terminal, requests.Load())
		}
	}
}

// Row 7 of docs/decisions/0007.
func TestConnect_noVPAsAndTerminal_logsIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"VerticalPodAutoscalerList","apiVersion":"autoscaling.k8s.io/v1","metadata":{},"items":[]}`))
	}))
	defer server.Close()
	var out bytes.Buffer
	p := New(slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry())
	p.Terminal = true
	c := CommonDefaults()
	c.Kubeconfig = kubeconfigOf(t, server.URL)
	if _, err := c.Connect(t.Context(), p, "test"); err != nil {
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
