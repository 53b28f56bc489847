// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/kubetest"
)

const mib = 1 << 20

// A user who may create pods, or only dry-run their creation, can cause any number of reviews.
func TestAdmission_reviewsOfPodsThatAreNeverStored_keepTheHeapFlat(t *testing.T) {
	reviews := 100_000
	if raceDetector {
		reviews = 10_000
	}
	clients, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	metrics, log := webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)
	view := newClusterView(watcher.NewWorld(clients, watcher.Options{}), func(string) bool { return true }, metrics, log)
	h := webhook.NewHandler(view, webhook.Options{}, webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	before := kubetest.HeapBytes()
	for i := range reviews {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(kubetest.PodReview(kubetest.UniquePod(i))))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	if grown := kubetest.HeapBytes() - before; grown > 4*mib {
		t.Errorf("the heap grew by %[2]d MiB in %[1]d reviews, want at most 4 MiB", reviews, grown/mib)
	}
	runtime.KeepAlive(view)
}
