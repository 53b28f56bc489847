// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

func serve(t *testing.T, h http.HandlerFunc, namespace string) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(&rest.Config{Host: srv.URL}, srv.Client(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSamples_clusterOrNamespace_sendsOneRequest(t *testing.T) {
	list := randomList(rand.New(rand.NewPCG(7, 8)))
	for form, reply := range map[string][]byte{"application/vnd.kubernetes.protobuf": asProtobuf(t, list), "application/json": asJSON(t, list)} {
		for namespace, path := range map[string]string{
			"":     "/apis/metrics.k8s.io/v1beta1/pods",
			"shop": "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
		} {
			var paths []string
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				if a := r.Header.Get("Accept"); !strings.HasPrefix(a, "application/vnd.kubernetes.protobuf,") {
					t.Errorf("got Accept %q, want protobuf first", a)
				}
				w.Header().Set("Content-Type", form)
				_, _ = w.Write(reply)
			}, namespace)

			got, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(reference(list), got.Samples); diff != "" {
				t.Errorf("%s (-want +got):\n%s", form, diff)
			}
			if diff := cmp.Diff([]string{path}, paths); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if got.Answered != 1 || got.Failed != 0 {
				t.Errorf("got %d answered and %d failed requests, want one answered", got.Answered, got.Failed)
			}
		}
	}
}

func TestSamples_serverFails_errorIsReportedAndReturned(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"no endpoints"}`))
	}, "")
	got, err := c.Read(t.Context())
	if err == nil || got.Samples != nil || !strings.Contains(err.Error(), "no endpoints") {
		t.Errorf("got samples %v, error %v", got.Samples, err)
	}
	if got.Answered != 0 || got.Failed != 1 {
		t.Errorf("got %d answered and %d failed requests, want one failed", got.Answered, got.Failed)
	}
}

func TestSamples_invalidQuantity_isCountedAsUnreadable(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"p"},"timestamp":"2026-03-01T12:00:00Z","containers":[{"name":"c","usage":{"cpu":"?"}}]}]}`))
	}, "")
	if got, err := c.Read(t.Context()); err != nil || got.Unreadable != 1 {
		t.Errorf("got %d unreadable containers, want 1; error %v", got.Unreadable, err)
	}
}
