// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func TestPrometheusConfig_foundServiceNeedsHeader_flagOverridesIt(t *testing.T) {
	for flag, want := range map[string]string{"": "anonymous", "x-scope-orgid: shop": "shop", "X-Other: a": "anonymous"} {
		f := kubetest.NewFakeAPI(t)
		f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"mimir-query-frontend","labels":{"app.kubernetes.io/name":"mimir","app.kubernetes.io/component":"query-frontend"}},
			"spec":{"ports":[{"name":"http-metrics","port":8080,"protocol":"TCP"}]}}`)
		clients, err := kube.ClientsFor(f.Config())
		if err != nil {
			t.Fatal(err)
		}
		var c PrometheusConfig
		if flag != "" {
			c.Headers = slices.Grow([]string{flag}, 4) // spare capacity, which an append would write to
		}
		found, err := c.Found(t.Context(), clients)
		if err != nil {
			t.Fatal(err)
		}
		var sent http.Header
		found.Transport.(*headers).next = roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return new(http.Response), nil
		})
		if _, err := found.Transport.RoundTrip(httptest.NewRequest(http.MethodGet, found.Address, nil)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(sent.Values("X-Scope-OrgID"), ","); got != want {
			t.Errorf("with flag %q: tenant %q was sent, want %q", flag, got, want)
		}
		if rest := c.Headers[len(c.Headers):cap(c.Headers)]; slices.ContainsFunc(rest, func(h string) bool { return h != "" }) {
			t.Errorf("with flag %q: the flags were written to: %q", flag, rest)
		}
	}
}

func TestHeaders_request_hasThemAndTheOriginalIsUnchanged(t *testing.T) {
	var got http.Header
	h := &headers{roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return new(http.Response), nil
	}), []string{"X-Scope-OrgID:  shop ", "X-Scope-OrgID: b"}}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	if _, err := h.RoundTrip(r); err != nil || strings.Join(got.Values("X-Scope-OrgID"), ",") != "shop,b" || len(r.Header) != 0 {
		t.Errorf("sent %v, the caller's request has %v, error %v", got, r.Header, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWithoutUser_urlWithPassword_passwordIsRemoved(t *testing.T) {
	if got := withoutUser("https://me:secret@host:9090/x"); got != "https://host:9090/x" {
		t.Errorf("got %s", got)
	}
}
