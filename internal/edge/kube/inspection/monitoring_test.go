// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package inspection

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// readOnly returns read-only clients of a fake API.
func readOnly(t *testing.T, f *kubetest.FakeAPI) *kube.Clients {
	t.Helper()
	clients, err := kube.NewClients(kube.Config{Kubeconfig: kubetest.Kubeconfig(t, f.URL()), QPS: -1, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func TestServices_selectors_tcpPortsAndLabelsAreReturned(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"prometheus","labels":{"app":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"},{"name":"dns","port":53,"protocol":"UDP"}]}}`)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"other","labels":{"app":"other"}},"spec":{"ports":[{"port":80,"protocol":"TCP"}]}}`)
	got, err := Services(t.Context(), readOnly(t, f), []string{"app in (prometheus)"})
	want := []cluster.Service{{
		Key: cluster.Key{Namespace: "monitoring", Name: "prometheus"}, Labels: map[string]string{"app": "prometheus"},
		Ports: []cluster.ServicePort{{Name: "web", Number: 9090}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	if n := len(f.Log()); n != 1 {
		t.Errorf("%d requests, want one for the selector", n)
	}
}

func TestPrometheuses_kindMissingOrForbidden_areNone(t *testing.T) {
	const path = "/apis/monitoring.coreos.com/v1/prometheuses"
	for name, tt := range map[string]struct {
		code  int // 0: the API server does not have the kind
		body  string
		want  map[cluster.Key]string
		fails bool
	}{
		"missing":   {0, "", nil, false},
		"forbidden": {http.StatusForbidden, kubetest.Failure(http.StatusForbidden, "Forbidden", "no"), nil, false},
		"broken":    {http.StatusOK, `[`, nil, true},
		"some": {http.StatusOK, `{"items":[{"metadata":{"namespace":"a","name":"k8s"},"spec":{"routePrefix":"/prom"}},{"metadata":{"namespace":"b","name":"x"}}]}`,
			map[cluster.Key]string{{Namespace: "a", Name: "k8s"}: "/prom", {Namespace: "b", Name: "x"}: ""}, false},
	} {
		f := kubetest.NewFakeAPI(t)
		if tt.code != 0 {
			f.Reply("GET "+path, tt.code, tt.body)
		}
		got, err := Prometheuses(t.Context(), readOnly(t, f))
		if diff := cmp.Diff(tt.want, got); diff != "" || tt.fails != (err != nil) {
			t.Errorf("%s: error %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestServiceProxy_request_isForwardedByGetOnly(t *testing.T) {
	const path = "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/prom/api/v1/query"
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+path, http.StatusOK, `{}`)
	clients := readOnly(t, f)
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
	f := kubetest.NewFakeAPI(t)
	if _, err := ClusterUID(t.Context(), readOnly(t, f)); err == nil {
		t.Error("no error for a missing namespace")
	}
	f.Apply("/api/v1/namespaces", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"0b7d"}}`)
	if uid, err := ClusterUID(t.Context(), readOnly(t, f)); uid != "0b7d" || err != nil {
		t.Errorf("got %q, %v", uid, err)
	}
}
