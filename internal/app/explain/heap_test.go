// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
)

// The heaps of containers with a JVM are read from the Prometheus of the flag or the environment, one query for each. Without one, or if it does
// not answer, they are not known.
func TestReadHeaps_prometheus_isReadForContainersWithAJVM(t *testing.T) {
	for name, tt := range map[string]struct {
		container, flag, variable string // flag and variable: "" none, "prometheus" the server, or a URL
		status                    int
		read, missing             string // containers that were read; the sentence about what is missing
	}{
		"flag":                 {flag: "prometheus", status: 200, read: "app side"},
		"variable":             {variable: "prometheus", status: 200, read: "app side"},
		"one container":        {container: "side", flag: "prometheus", status: 200, read: "side"},
		"not a JVM":            {container: "proxy", flag: "prometheus", status: 200},
		"no Prometheus":        {status: 200},
		"variable is no URL":   {variable: "localhost:9090", missing: "The heaps of JVMs were not read (PROMETHEUS_URL must be a URL"},
		"Prometheus is broken": {flag: "prometheus", status: 500, missing: "The heaps of JVMs were not read (read the heap of container app in namespace shop: "},
	} {
		t.Run(name, func(t *testing.T) {
			var queries []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				queries = append(queries, r.FormValue("query"))
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"podfit_part":"hours"},"value":[1,"30"]}]}}`)
			}))
			defer server.Close()
			c := &Config{Container: tt.container, prometheus: &process.PrometheusConfig{
				Prometheus: strings.Replace(tt.flag, "prometheus", server.URL, 1), ClusterLabel: "cluster=prod",
			}}
			t.Setenv(process.PrometheusVariable, strings.Replace(tt.variable, "prometheus", server.URL, 1))
			in := new(explanation.Input)
			in.Pods = []*cluster.Pod{{
				Key:        cluster.Key{Namespace: "shop", Name: "cart-0"},
				Containers: []cluster.Container{{Name: "app"}, {Name: "proxy", Index: 1}, {Name: "side", Index: 2}},
				Runtimes:   &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}, {Kind: cluster.JVM, Container: 2}}},
			}, {Key: cluster.Key{Namespace: "shop", Name: "cart-1"}}}
			c.readHeaps(t.Context(), time.Now(), in)
			var read []string
			for _, container := range slices.Sorted(maps.Keys(in.HeapUsage)) {
				if in.HeapUsage[container].Hours == 30 {
					read = append(read, container)
				}
			}
			missing := strings.Join(in.Unknown(), " ")
			if got := strings.Join(read, " "); got != tt.read || !strings.HasPrefix(missing, tt.missing) || (missing == "") != (tt.missing == "") {
				t.Errorf("read %q, missing %q; want %q and %q", got, missing, tt.read, tt.missing)
			}
			for _, q := range queries {
				if !strings.Contains(q, `namespace="shop", pod=~"cart-0|cart-1", container=`) || !strings.Contains(q, `cluster="prod"`) || strings.Contains(q, `container=~`) {
					t.Errorf("query %s", q)
				}
			}
		})
	}
}
