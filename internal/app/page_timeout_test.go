// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// explainTimeout bounds an explanation on the page.
const explainTimeout = 20 * time.Second

// If the API server does not answer, the viewer gets an error after explainTimeout, and no request goes on after that. A second viewer gets the
// same answer at once.
func TestPage_apiServerDoesNotAnswer_endsAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewLocalAPI(t)
		server.Handle(kubetest.NoAnswer)
		clients, err := kube.ClientsFor(kubetest.LocalConfig(server))
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
		sent := len(server.Log())
		_, again := p.Explain(t.Context(), cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, true)
		if again == nil || time.Since(began) != explainTimeout {
			t.Errorf("the second viewer waited for %v and got %v", time.Since(began)-explainTimeout, again)
		}
		time.Sleep(time.Minute)
		if now := len(server.Log()); sent == 0 || now != sent {
			t.Errorf("%d requests, then %d", sent, now)
		}
	})
}
