// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/edge/web"
	"podfit.dev/podfit/test/webtest"
)

// A request with any path, parameters and Host gets a response with the security headers, and none is an internal error.
func FuzzRequest_anyPathAndParameters_getASafeResponse(f *testing.F) {
	for _, page := range pages {
		path, query, _ := strings.Cut(page, "?")
		f.Add(path, query, "127.0.0.1:8945")
	}
	f.Add("/workloads", "page=9223372036854775808&page=-1&sort=%00&q=%ff&risk=<script>window&format=json", "[::1]:8945")
	f.Add("/workloads//Deployment/../x", "save=1&explain=1&;&=&%zz", "attacker.example")
	f.Add("/assets/..%2f..%2fetc/passwd", "", "")
	source := webtest.Small()
	h := web.New(web.Config{Cluster: "prod", Source: source, Explain: explains("text")})
	f.Fuzz(func(t *testing.T, path, query, host string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		response := w.Result()
		if response.StatusCode >= http.StatusInternalServerError {
			t.Errorf("status %d", response.StatusCode)
		}
		for header, want := range wantHeaders {
			if got := response.Header.Get(header); got != want && !strings.HasPrefix(path, "/assets/") {
				t.Errorf("%s is %q, want %q", header, got, want)
			}
		}
		text := body(t, response)
		if kind := response.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") && strings.Contains(text, "<script>window") {
			t.Error("the page contains a script of the request")
		}
	})
}
