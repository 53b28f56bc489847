// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package inspection

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// served returns read-only clients of a server.
func served(t *testing.T, h http.Handler) *kube.Clients {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := kube.NewClients(kube.Config{Kubeconfig: path, QPS: -1, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// failure returns a server that responds to each request with a Status object.
func failure(code int, reason, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	})
}

// responds returns a server that responds to each path with a JSON object.
func responds(bodies map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		if !ok {
			failure(http.StatusNotFound, "NotFound", "not found").ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
}

func TestServices_selectors_tcpPortsAndLabelsAreReturned(t *testing.T) {
	var selectors []string
	next := responds(map[string]string{"/api/v1/services": `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"namespace":"monitoring","name":"prometheus","labels":{"app":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"},{"name":"dns","port":53,"protocol":"UDP"}]}}]}`})
	clients := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		selectors = append(selectors, r.URL.Query().Get("labelSelector"))
		next.ServeHTTP(w, r)
	}))
	got, err := Services(t.Context(), clients, []string{"app in (prometheus)"})
	want := []cluster.Service{{
		Key: cluster.Key{Namespace: "monitoring", Name: "prometheus"}, Labels: map[string]string{"app": "prometheus"},
		Ports: []cluster.ServicePort{{Name: "web", Number: 9090}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"app in (prometheus)"}, selectors); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
}

func TestPrometheuses_kindMissingOrForbidden_areNone(t *testing.T) {
	const path = "/apis/monitoring.coreos.com/v1/prometheuses"
	for name, tt := range map[string]struct {
		server http.Handler
		want   map[cluster.Key]string
		fails  bool
	}{
		"missing":   {http.NotFoundHandler(), nil, false},
		"forbidden": {failure(http.StatusForbidden, "Forbidden", "no"), nil, false},
		"broken":    {responds(map[string]string{path: `[`}), nil, true},
		"some": {responds(map[string]string{path: `{"items":[{"metadata":{"namespace":"a","name":"k8s"},"spec":{"routePrefix":"/prom"}},{"metadata":{"namespace":"b","name":"x"}}]}`}),
			map[cluster.Key]string{{Namespace: "a", Name: "k8s"}: "/prom", {Namespace: "b", Name: "x"}: ""}, false},
	} {
		got, err := Prometheuses(t.Context(), served(t, tt.server))
		if diff := cmp.Diff(tt.want, got); diff != "" || tt.fails != (err != nil) {
			t.Errorf("%s: error %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestServiceProxy_request_isForwardedByGetOnly(t *testing.T) {
	const path = "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/prom/api/v1/query"
	clients := served(t, responds(map[string]string{path: `{}`}))
	base, err := ServiceProxy(clients, cluster.Key{Namespace: "monitoring", Name: "prometheus"}, "http", 9090, "/prom")
	if err != nil {
		t.Fatal(err)
	}
	a, err := clients.HTTP.Get(base + "/api/v1/query")
	if err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("GET: %v, %v", a, err)
	}
	if _, err := clients.HTTP.Post(base+"/api/v1/query", "text/plain", http.NoBody); !errors.Is(err, kube.ErrReadOnly) {
		t.Errorf("POST: error %v, want that it is not sent", err)
	}
}

func TestClusterUID_cluster_isThatOfKubeSystem(t *testing.T) {
	clients := served(t, responds(map[string]string{"/api/v1/namespaces/kube-system": `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"0b7d"}}`}))
	if uid, err := ClusterUID(t.Context(), clients); uid != "0b7d" || err != nil {
		t.Errorf("got %q, %v", uid, err)
	}
	if _, err := ClusterUID(t.Context(), served(t, http.NotFoundHandler())); err == nil {
		t.Error("no error for a missing namespace")
	}
}
