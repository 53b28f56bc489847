// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

var rescued = Condition{Type: "OOMRescue", Status: True, Reason: "Deleted", Message: "Pod web-1 was deleted."}

func TestWriteConditions_conditionIsNew_recommendationAndOtherConditionsAreKept(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{"observedGeneration":3,
		"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"350m"},"uncappedTarget":{"cpu":"1"}}]},
		"conditions":[{"type":"RecommendationProvided","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"}]}`)
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	for i, want := range []bool{true, false} {
		if wrote, err := w.WriteConditions(t.Context(), a, now, rescued); wrote != want || err != nil {
			t.Errorf("%d: wrote %t, want %t; error %v", i, wrote, want, err)
		}
	}
	var ops []struct {
		Path  string
		Value json.RawMessage
	}
	// The other fields, also those that podfit does not know, are not part of the patch.
	if err := json.Unmarshal([]byte(f.Body(statusPatch)), &ops); err != nil || len(ops) != 2 || ops[0].Path != "/metadata/resourceVersion" || ops[1].Path != "/status/conditions" {
		t.Fatalf("patch %s, error %v", f.Body(statusPatch), err)
	}
	var conditions []v1.VerticalPodAutoscalerCondition
	if err := json.Unmarshal(ops[1].Value, &conditions); err != nil {
		t.Fatal(err)
	}
	if len(conditions) != 2 || conditions[0].Type != "OOMRescue" {
		t.Errorf("conditions %s", ops[1].Value)
	}
	if wrote, err := w.WriteConditions(t.Context(), a, now, Condition{Type: rescued.Type}); !wrote || err != nil {
		t.Errorf("removal: wrote %t, error %v", wrote, err)
	}
	if _, err := w.WriteConditions(t.Context(), a, now, Condition{Type: v1.RecommendationProvided}); err != nil {
		t.Error(err)
	}
	if body := f.Body(statusPatch); !strings.Contains(body, `"path":"/status/conditions","value":[]`) {
		t.Errorf("patch %s, want an empty list", body)
	}
	if wrote, err := w.WriteConditions(t.Context(), a, now, Condition{Type: rescued.Type}); wrote || err != nil {
		t.Errorf("second removal: wrote %t, error %v", wrote, err)
	}
}

func TestWriteConditions_autoscalerWasReplaced_isNotWritten(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{}`)
	replaced := *a
	replaced.UID = "another"
	if _, err := w.WriteConditions(t.Context(), &replaced, kubetest.At(t, "2026-03-01T12:00:00Z"), rescued); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// The API server has no status yet, so that a missing observedGeneration does not mean that the CRD has no such field.
func TestWriteConditions_statusIsEmpty_nextStatusIsWrittenWithGeneration(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{}`)
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	if _, err := w.WriteConditions(t.Context(), a, now, rescued); err != nil {
		t.Fatal(err)
	}
	if body := f.Body(statusPatch); !strings.Contains(body, `"path":"/status",`) {
		t.Errorf("patch %s, want one that creates the status", body)
	}
	if w.generationPruned.Load() {
		t.Error("the CRD counts as one without status.observedGeneration")
	}
}

// With Options.Plain, podfit's conditions are not written, and those that are stored are removed. Others stay.
func TestWriteConditions_plain_onlyConditionsOfUpstreamAndOthersRemain(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{"observedGeneration":3,"conditions":[
		{"type":"RecommendationProvided","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"Updating","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"example.com/Reviewed","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"}]}`)
	w.o.Plain = true
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	for i, want := range []bool{true, false} {
		if wrote, err := w.WriteConditions(t.Context(), a, now, rescued); wrote != want || err != nil {
			t.Errorf("%d: wrote %t, want %t; error %v", i, wrote, want, err)
		}
	}
	if body := f.Body(statusPatch); strings.Contains(body, "OOMRescue") || strings.Contains(body, "Updating") || !strings.Contains(body, "RecommendationProvided") || !strings.Contains(body, "Reviewed") {
		t.Errorf("patch %s", body)
	}
	own := []Condition{{Type: "OOMKillLoop", Status: True}, {Type: "TargetConflict", Status: True}, {Type: v1.RecommendationProvided, Status: True}}
	if _, err := w.WriteStatus(t.Context(), a, nil, now, own...); err != nil {
		t.Fatal(err)
	}
	if body := f.Body(statusPatch); strings.Contains(body, "OOMKillLoop") || strings.Contains(body, "TargetConflict") || !strings.Contains(body, "RecommendationProvided") {
		t.Errorf("patch %s", body)
	}
}
