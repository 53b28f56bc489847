// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

func TestResizePreemption_versionAndMetrics_decide(t *testing.T) {
	gate := func(value int) string {
		return fmt.Sprintf("# TYPE kubernetes_feature_enabled gauge\nx{le=%q} 1\nkubernetes_feature_enabled{name=\"A\",stage=\"\"} 1\n"+
			"kubernetes_feature_enabled{name=\"InPlacePodVerticalScalingSchedulerPreemption\",stage=\"ALPHA\"} %d\n", strings.Repeat("long", 5000), value)
	}
	for name, c := range map[string]struct {
		version string // of the API server; "" if it does not answer
		metrics string // "" if they may not be read
		want    bool
		text    string // of the error; "" if there is none
	}{
		"old version":              {"v1.36.3", "", false, ""},
		"old version of a vendor":  {"v1.33.1-gke.100", "", false, ""},
		"gate is on":               {"v1.37.0", gate(1), true, ""},
		"gate is off":              {"v1.38.2-eks-1", gate(0), false, ""},
		"gate is not reported":     {"v1.45.0", "kubernetes_feature_enabled{name=\"A\",stage=\"\"} 1\n", false, "no metric"},
		"metrics may not be read":  {"v1.37.0", "", false, "get the metrics"},
		"server does not answer":   {"", "", false, "get the version"},
		"version is not a version": {"latest", "", false, "decode the version"},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("GET /version", http.StatusForbidden, "no")
			f.Reply("GET /metrics", http.StatusForbidden, "no")
			if c.version != "" {
				f.Reply("GET /version", http.StatusOK, fmt.Sprintf(`{"gitVersion": %q}`, c.version))
			}
			if c.metrics != "" {
				f.Reply("GET /metrics", http.StatusOK, c.metrics)
			}
			got, err := clientsOf(f).ResizePreemption(t.Context())
			if got != c.want || (err != nil) != (c.text != "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("on: %v, error %v, want %v and %q", got, err, c.want, c.text)
			}
		})
	}
}

// A subresource is asked for as such: webhooks that authorize requests do not know the resource nodes/stats.
func TestHas_subresource_isAskedForApart(t *testing.T) {
	const reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	for resource, subresource := range map[string]string{"nodes/stats": "stats", "pods": ""} {
		f := kubetest.NewFakeAPI(t)
		f.Reply(reviews, http.StatusCreated, `{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": true}}`)
		has, err := clientsOf(f).Has(t.Context(), Right{Verb: "get", Resource: resource})
		body := f.Body(reviews)
		if err != nil || !has || strings.Contains(body, "/stats") || !strings.Contains(body, strings.TrimSuffix(resource, "/stats")) || strings.Contains(body, "stats") != (subresource != "") {
			t.Errorf("%s: allowed %v, error %v, request %q", resource, has, err, body)
		}
	}
}
