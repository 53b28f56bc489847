// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
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
	before := liveHeap()
	for i := range reviews {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(podReview(uniquePod(i))))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	if grown := liveHeap() - before; grown > 4*mib {
		t.Errorf("the heap grew by %[2]d MiB in %[1]d reviews, want at most 4 MiB", reviews, grown/mib)
	}
	runtime.KeepAlive(view)
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// podReview is the review of a pod that is being created.
func podReview(pod string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","namespace":"shop","operation":"CREATE",` +
		`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"object":` + pod + `}}`)
}

// uniquePod returns a pod that shares no names with other pods.
func uniquePod(i int) string {
	id := fmt.Sprintf("%09d", i)
	return `{"metadata":{"generateName":"n` + id + `-","annotations":{"vpaObservedContainers":"` + id + strings.Repeat("x", 3000) + `"},` +
		`"ownerReferences":[{"apiVersion":"g` + id + `.example/v1","kind":"K` + id + `","name":"w` + id + `","controller":true}]},` +
		`"spec":{"nodeSelector":{"k` + id + `":"v` + id + `"},"containers":[{"name":"c` + id + `"}]}}`
}
