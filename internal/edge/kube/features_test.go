// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/version" && c.version != "":
					fmt.Fprintf(w, `{"gitVersion": %q}`, c.version)
				case r.URL.Path == "/metrics" && c.metrics != "":
					fmt.Fprint(w, c.metrics)
				default:
					http.Error(w, "no", http.StatusForbidden)
				}
			}))
			defer server.Close()
			core, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&Clients{Core: core}).ResizePreemption(t.Context())
			if got != c.want || (err != nil) != (c.text != "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("on: %v, error %v, want %v and %q", got, err, c.want, c.text)
			}
		})
	}
}
