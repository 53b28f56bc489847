// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/kubetest"
)

// fixedProfiles are the SizingProfiles of a cluster.
type fixedProfiles struct {
	names   []string
	unknown bool
}

func (f fixedProfiles) ProfileNames() ([]string, bool) { return slices.Clone(f.names), !f.unknown }

func TestKnownProfiles_recommenderName_namesTheProfile(t *testing.T) {
	for name, tt := range map[string]struct {
		profiles fixedProfiles
		want     map[string]string // by recommender
	}{
		"two profiles": {fixedProfiles{names: []string{"nightly", "balanced2"}}, map[string]string{
			"ballanced": "balanced", "nightli": "nightly", "balanced2": "", "balanced": "", "frugal": "",
		}},
		"no profiles":           {fixedProfiles{}, map[string]string{"ballanced": "balanced", "nightli": "", "frugal": ""}},
		"profiles of this name": {fixedProfiles{names: []string{"balance"}}, map[string]string{"balance": ""}},
		"not known":             {fixedProfiles{unknown: true}, map[string]string{"ballanced": "", "balanced": "", "frugal": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for recommender, want := range tt.want {
				if got := (knownProfiles{tt.profiles}).Similar(recommender); got != want {
					t.Errorf("similar to %s: got %q, want %q", recommender, got, want)
				}
			}
		})
	}
}

// autoscalerReview is the review of a VPA that is created with a recommender name.
func autoscalerReview(recommender string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","namespace":"shop","operation":"CREATE",` +
		`"kind":{"group":"autoscaling.k8s.io","version":"v1","kind":"VerticalPodAutoscaler"},` +
		`"resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},` +
		`"object":{"spec":{"targetRef":{"kind":"Deployment","name":"cart"},"recommenders":[{"name":"` + recommender + `"}]}}}}`)
}

func answer(t *testing.T, h http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("status %d: %v: %s", w.Code, err, w.Body)
	}
	return review.Response
}

// Reviews must not send requests: the API server waits for their answers.
func TestReview_unknownRecommenderAndAPIServerHangs_sendsNoRequest(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.Handle(kubetest.NoAnswer)
	world := watcher.NewWorld(clientsOf(t, api), watcher.Options{Profiles: true}) // not started: it sends no requests of its own
	config := Defaults()
	metrics, log := webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)
	view := newClusterView(world, func(string) bool { return true }, metrics, log)
	handler := webhook.NewHandler(view, config.handlerOptions(world), metrics, log)
	for _, recommender := range []string{"ballanced", "frugal", "another"} {
		if r := answer(t, handler, autoscalerReview(recommender)); !r.Allowed || len(r.Warnings) > 0 {
			t.Errorf("recommender %s: got %+v, want it admitted without a warning, because the profiles are not known", recommender, r)
		}
	}
	if requests := api.Log(); len(requests) > 0 {
		t.Errorf("reviews sent %v", requests)
	}
}

func TestReview_misspelledProfile_warnsUnlessProfilesAreOff(t *testing.T) {
	for _, off := range []bool{false, true} {
		config := Defaults()
		config.NoProfiles = off
		metrics, log := webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)
		view := newClusterView(watcher.NewWorld(clientsOf(t, kubetest.NewFakeAPI(t)), watcher.Options{}), func(string) bool { return true }, metrics, log)
		handler := webhook.NewHandler(view, config.handlerOptions(fixedProfiles{names: []string{"nightly"}}), metrics, log)
		warnings := strings.Join(answer(t, handler, autoscalerReview("nightli")).Warnings, "\n")
		if got := strings.Contains(warnings, `"nightly"`); got == off {
			t.Errorf("profiles off %t: warnings %q", off, warnings)
		}
	}
}
