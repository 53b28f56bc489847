// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// status returns a server that responds to each request with a Status object.
func status(code int, reason, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	})
}

// Rows 5 and 6 of docs/decisions/0007.
func TestPreflight_unusableCluster_errorIsOneLineWithServerCauseAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		server http.Handler
		want   []string
	}{
		"401": {status(http.StatusUnauthorized, "Unauthorized", "Unauthorized"), []string{"rejects the credentials (401 Unauthorized)", "--kubeconfig and --context"}},
		"403": {status(http.StatusForbidden, "Forbidden", `verticalpodautoscalers.autoscaling.k8s.io is forbidden: User "jane" cannot list resource`),
			[]string{`User "jane" cannot list resource`, "grant this permission, choose another user with --context or --as", "-n NAMESPACE"}},
		"404": {http.NotFoundHandler(), []string{"it has no kind VerticalPodAutoscaler; install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"}},
		"500": {status(http.StatusInternalServerError, "InternalError", "etcd is gone"), []string{"etcd is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.server)
			defer server.Close()
			checkPreflight(t, &rest.Config{Host: server.URL}, append(tt.want, "cannot use the cluster at "+server.URL))
		})
	}
	t.Run("not reached", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		checkPreflight(t, &rest.Config{Host: server.URL}, []string{"no connection (connection refused); check that the API server runs"})
	})
	t.Run("unknown authority", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		defer server.Close()
		checkPreflight(t, &rest.Config{Host: server.URL}, []string{"the certificate of the server has an unknown authority; check certificate-authority"})
	})
}

func checkPreflight(t *testing.T, config *rest.Config, want []string) {
	t.Helper()
	clients, err := ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.Preflight(t.Context(), "")
	if err == nil {
		t.Fatal("no error is returned")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error %q", w, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestPreflight_serverHangs_endsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, err := ClientsFor(&rest.Config{Host: "http://hangs.example", Transport: hangs{}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = clients.Preflight(t.Context(), "")
		if err == nil || !strings.Contains(err.Error(), "no response in time") {
			t.Errorf("got the error %v, want a timeout", err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the preflight took %v, want at most 10s", took)
		}
	})
}

// hangs is a transport without responses.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestPreflight_usableCluster_reportsWhetherThereAreVPAs(t *testing.T) {
	for namespace, tt := range map[string]struct {
		items string
		found bool
	}{"": {`{"metadata":{"name":"web"}}`, true}, "shop": {"", false}} {
		var path string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path = r.URL.String()
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"VerticalPodAutoscalerList","apiVersion":"autoscaling.k8s.io/v1","metadata":{},"items":[`+tt.items+`]}`)
		}))
		clients, err := ClientsFor(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		found, err := clients.Preflight(t.Context(), namespace)
		if err != nil || found != tt.found {
			t.Errorf("namespace %q: found %t, error %v; want %t", namespace, found, err, tt.found)
		}
		if want := "verticalpodautoscalers?limit=1"; !strings.Contains(path, want) || namespace != "" && !strings.Contains(path, "/namespaces/shop/") {
			t.Errorf("namespace %q: the request is %s", namespace, path)
		}
		server.Close()
	}
}
