// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAuthenticated_headers_areSentAndTheOriginalIsUnchanged(t *testing.T) {
	var got http.Header
	h := Authenticated(roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return new(http.Response), nil
	}), Config{}, "X-Scope-OrgID:  shop ", "X-Scope-OrgID: b")
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	if _, err := h.RoundTrip(r); err != nil || strings.Join(got.Values("X-Scope-OrgID"), ",") != "shop,b" || len(r.Header) != 0 {
		t.Errorf("sent %v, the caller's request has %v, error %v", got, r.Header, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
