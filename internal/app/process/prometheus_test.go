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
		var sent http.Header
		clients.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return new(http.Response), nil
		})}
		found, err := c.Found(t.Context(), clients)
		if err != nil {
			t.Fatal(err)
		}
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

func TestPrometheusConfig_given_readsTheFlagBeforeTheVariable(t *testing.T) {
	t.Setenv(PrometheusVariable, "http://me:secret@variable:9090")
	given, err := (&PrometheusConfig{Headers: []string{"X-Scope-OrgID: shop"}}).Given()
	if err != nil || given.Address != "http://me:secret@variable:9090" || given.Name != "Prometheus http://variable:9090" || given.Proxied || !slices.Equal(given.Headers, []string{"X-Scope-OrgID: shop"}) {
		t.Errorf("from the variable: %+v, %v", given, err)
	}
	if given, err = (&PrometheusConfig{Prometheus: "http://flag:9090"}).Given(); err != nil || given.Address != "http://flag:9090" {
		t.Errorf("from the flag: %+v, %v", given, err)
	}
	t.Setenv(PrometheusVariable, "variable:9090")
	if _, err = new(PrometheusConfig).Given(); err == nil || !strings.Contains(err.Error(), `PROMETHEUS_URL must be a URL such as http://localhost:9090, got "variable:9090"`) {
		t.Errorf("without a scheme: error %v", err)
	}
	t.Setenv(PrometheusVariable, "")
	if given, err = new(PrometheusConfig).Given(); given != nil || err != nil {
		t.Errorf("neither is set: %+v, %v", given, err)
	}
}

func TestPrometheusConfig_clusterLabel_isAMatcherWithAQuotedValue(t *testing.T) {
	for label, want := range map[string][]string{"": nil, "cluster=prod": {`cluster="prod"`}, `cluster=a"} or up{x="`: {`cluster="a\"} or up{x=\""`}} {
		if got := (&PrometheusConfig{ClusterLabel: label}).Matchers(); !slices.Equal(got, want) {
			t.Errorf("%q: matchers %q, want %q", label, got, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWithoutUser_urlWithPassword_passwordIsRemoved(t *testing.T) {
	if got := withoutUser("https://me:secret@host:9090/x"); got != "https://host:9090/x" {
		t.Errorf("got %s", got)
	}
}
