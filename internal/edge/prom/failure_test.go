// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/usage"
)

// answering returns a handler with one answer to all requests.
func answering(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

func failure(kind, text string) string {
	return fmt.Sprintf(`{"status":"error","errorType":%q,"error":%q}`, kind, text)
}

// Row 14 of docs/decisions/0007.
func TestHistory_unusableAnswer_errorIsCauseAndRemedyWithoutQuery(t *testing.T) {
	const html = "text/html; charset=utf-8"
	for name, tt := range map[string]struct {
		handler  http.HandlerFunc
		want     []string
		tooLarge bool
	}{
		"401":        {answering(401, "text/plain", "Unauthorized"), []string{"rejects the credentials (401 Unauthorized)", "provide other credentials"}, false},
		"403":        {answering(403, "text/plain", "Forbidden"), []string{"denies access (403 Forbidden)", "provide other credentials"}, false},
		"404":        {answering(404, html, "<html>"), []string{"has no Prometheus API at /api/v1/query_range (404 Not Found)", "check the address"}, false},
		"login page": {answering(200, html, "<html>Sign in"), []string{"answers with a web page", "probably with a login"}, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/start?token=x", http.StatusFound)
		}, []string{"redirects to https://login.example/start (302)"}, false},
		"something else": {answering(200, "application/json", "[]"), []string{"does not answer as Prometheus does", "check the address"}, false},
		"too many samples": {answering(422, "application/json", failure("execution", "query processing would load too many samples into memory in query execution")),
			[]string{"query refused by Prometheus", "too many samples", "read less"}, true},
		"bad query":     {answering(400, "application/json", failure("bad_data", "parse error")), []string{"query not understood by Prometheus", "parse error"}, false},
		"query timeout": {answering(503, "application/json", failure("timeout", "query timed out in expression evaluation")), []string{"overloaded or not available (503: query timed out in expression evaluation)", "try later"}, true},
		"proxy":         {answering(502, html, "<html>Bad Gateway"), []string{"failed (502)", "its log has the cause"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			checkFailure(t, server.URL, tt.want, tt.tooLarge)
		})
	}
	t.Run("not reached", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		checkFailure(t, server.URL, []string{"no connection to Prometheus", "connection refused", "check the address"}, false)
	})
}

// checkFailure compares the error of reading history from a server.
func checkFailure(t *testing.T, address string, want []string, tooLarge bool) {
	t.Helper()
	client, err := New(Config{
		Address: address, Timeout: time.Minute, CPUMetric: "cpu", MemoryMetric: "memory", Length: time.Hour, Resolution: time.Minute,
		NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container",
	})
	if err != nil {
		t.Fatal(err)
	}
	err = each(client.History(t.Context(), "shop", time.Unix(1_700_000_000, 0)), func(usage.Sample) {})
	if err == nil {
		t.Fatal("no error is returned")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, want %q in it", err, w)
		}
	}
	for _, unwanted := range []string{"max by", "Post \"", "token=x", "\n"} {
		if strings.Contains(err.Error(), unwanted) {
			t.Errorf("got %q, which contains %q", err, unwanted)
		}
	}
	var query *QueryError
	if !errors.As(err, &query) || !strings.Contains(query.Query, "max by") {
		t.Errorf("the error %q does not have the query", err)
	}
	if want := strings.Contains(err.Error(), "query refused") || strings.Contains(err.Error(), "query not understood"); query != nil && query.Refused != want {
		t.Errorf("refused: %t for %q", query.Refused, err)
	}
	if IsTooLarge(err) != tooLarge {
		t.Errorf("too large: %t for %q", IsTooLarge(err), err)
	}
}

func TestNamespaces_labelValues_areSorted(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + " " + r.FormValue("match[]")
		answering(200, "application/json", `{"status":"success","data":["web","lab","shop"]}`)(w, r)
	}))
	defer server.Close()
	config := Config{
		Address: server.URL, Job: "kubelet", MemoryMetric: "memory", Length: time.Hour, Resolution: time.Minute,
		NamespaceLabel: "ns", PodLabel: "pod", ContainerLabel: "container",
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	names, err := client.Namespaces(t.Context(), time.Unix(0, 0), time.Unix(3600, 0))
	if err != nil || !slices.Equal(names, []string{"lab", "shop", "web"}) {
		t.Errorf("got %v, %v", names, err)
	}
	if want := `/api/v1/label/ns/values memory{container!="", ns!="", job="kubelet"}`; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	config.NamespaceLabel = ""
	if client, err = New(config); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Namespaces(t.Context(), time.Unix(0, 0), time.Unix(3600, 0)); err == nil || !strings.Contains(err.Error(), "label of namespaces must not be empty") {
		t.Errorf("without a label of namespaces: got %v", err)
	}
}
