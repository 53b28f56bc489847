// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/test/kubetest"
)

const autoscalersList = "GET " + kubetest.AutoscalersPath

// Rows 5 and 6 of docs/decisions/0007.
func TestPreflight_unusableCluster_errorIsOneLineWithServerCauseAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		code            int
		reason, message string
		want            []string
	}{
		"401": {http.StatusUnauthorized, "Unauthorized", "Unauthorized", []string{"rejects the credentials (401 Unauthorized)", "--kubeconfig and --context"}},
		"403": {http.StatusForbidden, "Forbidden", `verticalpodautoscalers.autoscaling.k8s.io is forbidden: User "jane" cannot list resource`,
			[]string{`User "jane" cannot list resource`, "grant this permission, choose another user with --context or --as", "-n NAMESPACE"}},
		"404": {http.StatusNotFound, "", "", []string{"it has no kind VerticalPodAutoscaler; install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"}},
		"500": {http.StatusInternalServerError, "InternalError", "etcd is gone", []string{"etcd is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			body := kubetest.Failure(tt.code, tt.reason, tt.message)
			if tt.reason == "" {
				body = "404 page not found"
			}
			f.Reply(autoscalersList, tt.code, body)
			checkPreflight(t, f.Config(), append(tt.want, "cannot use the cluster at "+f.URL()))
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
		f := kubetest.NewLocalAPI(t)
		f.Handle(kubetest.NoAnswer)
		clients, err := ClientsFor(kubetest.LocalConfig(f))
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

func TestPreflight_usableCluster_reportsWhetherThereAreVPAs(t *testing.T) {
	for namespace, found := range map[string]bool{"": true, "shop": false} {
		f := kubetest.NewFakeAPI(t)
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"other","name":"web"}}`)
		got, err := clientsOf(f).Preflight(t.Context(), namespace)
		if err != nil || got != found {
			t.Errorf("namespace %q: found %t, error %v; want %t", namespace, got, err, found)
		}
		if _, query := f.Lists(kubetest.AutoscalersPath); query != "limit=1" || len(f.Log()) != 1 || f.Log()[0].Namespace != namespace {
			t.Errorf("namespace %q: the requests are %+v", namespace, f.Log())
		}
	}
}
