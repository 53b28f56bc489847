// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

func TestExternalSamples_twoResources_sendOneRequestEach(t *testing.T) {
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.Path+" "+r.URL.Query().Get("labelSelector"))
		value := "250m"
		if strings.HasSuffix(r.URL.Path, "memory-of-pods") {
			value = "200Mi"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[
			{"metricName":"x","metricLabels":{"name":"app"},"timestamp":"2026-03-01T12:00:00Z","value":"` + value + `"},
			{"metricName":"x","metricLabels":{},"timestamp":"2026-03-01T12:00:00Z","value":"1"}]}`))
	}))
	defer srv.Close()
	e, err := NewExternal(&rest.Config{Host: srv.URL}, srv.Client(), ExternalNames{CPU: "cpu-of-pods", Memory: "memory-of-pods", ContainerLabel: "name"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Read(t.Context(), cluster.Key{Namespace: "shop", Name: "web-1"}, labels.SelectorFromSet(labels.Set{"app": "web"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []usage.Sample{{
		Pod: cluster.Key{Namespace: "shop", Name: "web-1"}, Container: "app", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		CPU: 0.25, Memory: 200 << 20, Has: cluster.Both,
	}}
	if diff := cmp.Diff(want, got.Samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/"
	if diff := cmp.Diff([]string{path + "cpu-of-pods app=web,pod=web-1", path + "memory-of-pods app=web,pod=web-1"}, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestExternal_noMetricNameOrFailedRequest_returnsError(t *testing.T) {
	if _, err := NewExternal(&rest.Config{Host: "http://127.0.0.1:1"}, http.DefaultClient, ExternalNames{}); err == nil {
		t.Error("no error without the name of a metric")
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	e, err := NewExternal(&rest.Config{Host: srv.URL}, srv.Client(), ExternalNames{CPU: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Read(t.Context(), cluster.Key{Namespace: "shop", Name: "web-1"}, labels.Everything())
	if err == nil || !strings.Contains(err.Error(), "external metric cpu of pod shop/web-1") {
		t.Errorf("got error %v", err)
	}
}
