// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// explainTimeout bounds an explanation on the page.
const explainTimeout = 20 * time.Second

// silent is an API server that never answers.
type silent struct{ requests atomic.Int32 }

// RoundTrip implements http.RoundTripper.
func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// If the API server does not answer, the viewer gets an error after explainTimeout, and no request goes on after that. A second viewer gets the
// same answer at once.
func TestPage_apiServerDoesNotAnswer_endsAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(silent)
		clients, err := kube.ClientsFor(&rest.Config{Host: "http://api.test", QPS: -1, Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		p := explainerOfPage(clients, nil, slog.New(slog.DiscardHandler))
		began := time.Now()
		explanation, err := p.Explain(t.Context(), cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, true)
		if took := time.Since(began); err == nil || explanation.Text != "" || took != explainTimeout {
			t.Errorf("text %q and error %v after %v, want an error after %v", explanation.Text, err, took, explainTimeout)
		}
		if err != nil && !strings.Contains(err.Error(), "no response") {
			t.Errorf("error %v does not say that time is up", err)
		}
		sent := server.requests.Load()
		_, again := p.Explain(t.Context(), cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, true)
		if again == nil || time.Since(began) != explainTimeout {
			t.Errorf("the second viewer waited for %v and got %v", time.Since(began)-explainTimeout, again)
		}
		time.Sleep(time.Minute)
		if now := server.requests.Load(); sent == 0 || now != sent {
			t.Errorf("%d requests, then %d", sent, now)
		}
	})
}
