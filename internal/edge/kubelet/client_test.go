// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

var report1 = cluster.Key{Namespace: "shop", Name: "report-1"}

// page is what a kubelet of Kubernetes 1.36 serves, without the metrics of nodes and pods.
const page = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="shop",pod="report-1"} 2.5 1700000010500
container_cpu_usage_seconds_total{container="app",namespace="other",pod="report-1"} 99 1700000010500
container_cpu_usage_seconds_total{container="unknown",namespace="shop",pod="report-1"} 99 1700000010500
container_cpu_usage_seconds_total{container="young",namespace="shop",pod="report-1"} 0.9 1700000010500
container_cpu_usage_seconds_total{container="startless",namespace="shop",pod="report-1"} 7 1700000010500
container_cpu_usage_seconds_total{container="timeless",namespace="shop",pod="report-1"} 7
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="app",namespace="shop",pod="report-1"} 1.048576e+06 1700000010500
container_memory_working_set_bytes{container="young",namespace="shop",pod="report-1"} 2e+06 1700000010500
container_memory_working_set_bytes{container="startless",namespace="shop",pod="report-1"} 3e+06 1700000010500
container_memory_working_set_bytes{container="timeless",namespace="shop",pod="report-1"} 4e+06
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="app",namespace="shop",pod="report-1"} 1.7000000005e+09
container_start_time_seconds{container="young",namespace="shop",pod="report-1"} 1.7000000103e+09
container_start_time_seconds{container="timeless",namespace="shop",pod="report-1"} 1.7000000005e+09
# TYPE resource_scrape_error gauge
resource_scrape_error 0
`

func pods() map[cluster.Key]*cluster.Pod {
	return map[cluster.Key]*cluster.Pod{report1: {Key: report1, Containers: []cluster.Container{{Name: "app"}, {Name: "young"}, {Name: "startless"}, {Name: "timeless"}}}}
}

// serve returns the address of a kubelet, and a configuration that trusts it.
func serve(t *testing.T, do http.HandlerFunc) (address string, cfg *rest.Config) {
	t.Helper()
	s := httptest.NewTLSServer(do)
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s.Listener.Addr().String(), &rest.Config{
		Host: "https://api.example.com", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: authority, ServerName: "api.example.com"},
	}
}

func read(t *testing.T, address string, cfg *rest.Config, insecure bool) ([]usage.Sample, error) {
	t.Helper()
	c, err := New(cfg, insecure)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := c.Read(t.Context(), address, pods())
	slices.SortFunc(samples, func(a, b usage.Sample) int { return strings.Compare(a.Container, b.Container) })
	return samples, err
}

// CPU is the mean since the start. Without a start or a time it is not known.
func TestRead_kubelet_reportsTheContainersOfThePods(t *testing.T) {
	address, cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/resource" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("request %s with %q", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, page)
	})
	samples, err := read(t, address, cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range samples {
		got = append(got, fmt.Sprint(s.Container, " ", s.CPU, " ", s.Memory, " ", s.At.UnixMilli(), " ", s.Pod == report1 && s.Reading))
	}
	want := []string{"app 0.25 1.048576e+06 1700000010500 true", "startless 0 3e+06 1700000010500 true", "young 0 2e+06 1700000010500 true"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRead_kubeletRefusesOrFails_errorNamesIt(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for want, do := range map[string]http.HandlerFunc{
		"403 Forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"307 Temporary Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("# comment\n"), maxBody/10+1))
		},
		"token too long":            func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 100_000)) },
		"text format parsing error": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metrics[0]+"{container=\n") },
	} {
		address, cfg := serve(t, do)
		if samples, err := read(t, address, cfg, true); err == nil || !strings.Contains(err.Error(), want) || len(samples) > 0 {
			t.Errorf("%s: %v, error %v", want, samples, err)
		}
	}
	if _, err := read(t, "not an address\n", &rest.Config{}, false); err == nil {
		t.Error("an invalid address is read")
	}
	if _, err := New(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}, false); err == nil {
		t.Error("an authority that cannot be read is no error")
	}
}

// A certificate of another authority is trusted only with --kubelet-insecure-tls, also if that of the API server is not verified.
func TestRead_certificateOfAnotherAuthority_isRefusedUnlessInsecure(t *testing.T) {
	address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	for _, insecure := range []bool{false, true} {
		samples, err := read(t, address, &rest.Config{BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, insecure)
		if (err == nil) != insecure || len(samples) > 0 != insecure {
			t.Errorf("insecure %t: %d samples, error %v", insecure, len(samples), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(page))
	f.Fuzz(func(t *testing.T, data []byte) {
		samples, _ := parse(bytes.NewReader(data), pods())
		for _, s := range samples {
			if s.Pod != report1 || pods()[report1].Container(s.Container) == nil {
				t.Errorf("%+v", s)
			}
		}
	})
}
