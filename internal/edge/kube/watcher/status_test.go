// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const statusPatch = "PATCH /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web/status"

var (
	someAdvice = []cluster.Advice{{
		Container: "app",
		Estimate: cluster.Estimate{
			Lower:  cluster.Amounts(25, 250<<20),
			Target: cluster.Amounts(1500, 262144000),
			Upper:  cluster.Amounts(3000, 1<<30),
		},
		Uncapped: cluster.Amounts(1500, 262144001),
	}}
	provided = Condition{Type: v1.RecommendationProvided, Status: True}
)

func worldWithAutoscaler(t *testing.T, f *kubetest.FakeAPI, status string) (*World, *cluster.Autoscaler) {
	t.Helper()
	f.Apply(kubetest.AutoscalersPath, `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler",
		"metadata":{"namespace":"shop","name":"web","uid":"v1","generation":4},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"status":`+status+`}`)
	w := startWorld(t, f, Options{})
	return w, w.Autoscaler(kubetest.WebKey)
}

func TestWriteStatus_recommendation_isWrittenAsUpstreamWritesIt(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{"conditions":[
		{"type":"RecommendationProvided","status":"False","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"NoPodsMatched","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"ConfigDeprecated","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"ConfigUnsupported","status":"True","message":"old","lastTransitionTime":"2026-03-01T10:00:00Z"},
		{"type":"SetByOtherController","status":"Unknown","reason":"r","message":"m","lastTransitionTime":"2026-03-01T09:00:00Z"}]}`)
	now := kubetest.At(t, "2026-03-01T12:00:00Z").Add(300 * time.Millisecond)
	wrote, err := w.WriteStatus(t.Context(), a, someAdvice, now, provided,
		Condition{Type: v1.NoPodsMatched}, Condition{Type: v1.ConfigUnsupported, Status: True, Message: "new"})
	if !wrote || err != nil {
		t.Fatalf("wrote %t, error %v", wrote, err)
	}
	got, err := json.MarshalIndent(f.Object(kubetest.AutoscalersPath, "shop/web")["status"], "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "conditions": [
  {
   "lastTransitionTime": "2026-03-01T10:00:00Z",
   "message": "new",
   "status": "True",
   "type": "ConfigUnsupported"
  },
  {
   "lastTransitionTime": "2026-03-01T12:00:00Z",
   "status": "True",
   "type": "RecommendationProvided"
  },
  {
   "lastTransitionTime": "2026-03-01T09:00:00Z",
   "message": "m",
   "reason": "r",
   "status": "Unknown",
   "type": "SetByOtherController"
  }
 ],
 "observedGeneration": 4,
 "recommendation": {
  "containerRecommendations": [
   {
    "containerName": "app",
    "lowerBound": {
     "cpu": "25m",
     "memory": "250Mi"
    },
    "target": {
     "cpu": "1500m",
     "memory": "250Mi"
    },
    "uncappedTarget": {
     "cpu": "1500m",
     "memory": "262144001"
    },
    "upperBound": {
     "cpu": "3",
     "memory": "1Gi"
    }
   }
  ]
 }
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWriteStatus_unchanged_sendsNothing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{}`)
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	for i, tc := range []struct {
		advice    []cluster.Advice
		condition Condition
		want      bool
	}{
		{someAdvice, provided, true},
		{someAdvice, provided, false}, // maybe before the watch delivers the first write
		{someAdvice, provided, false},
		{nil, provided, true},
		{nil, Condition{Type: v1.RecommendationProvided, Status: False, Reason: "NoPodsMatched"}, true},
		{nil, Condition{Type: v1.RecommendationProvided, Status: False, Reason: "NoPodsMatched"}, false},
	} {
		now = now.Add(time.Minute)
		wrote, err := w.WriteStatus(t.Context(), a, tc.advice, now, tc.condition)
		if wrote != tc.want || err != nil {
			t.Errorf("%d: wrote %t, want %t; error %v", i, wrote, tc.want, err)
		}
	}
	kubetest.Eventually(t, "the watch has delivered the last write", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		e, _ := w.autoscalers.get(kubetest.WebKey)
		return e.version == kubetest.MetaOf(f.Object(kubetest.AutoscalersPath, "shop/web"))["resourceVersion"]
	})
	if wrote, err := w.WriteStatus(t.Context(), a, nil, now, Condition{Type: v1.RecommendationProvided, Status: False, Reason: "NoPodsMatched"}); wrote || err != nil {
		t.Errorf("wrote %t although the API server has the same status; error %v", wrote, err)
	}
}

func TestWriteStatus_objectChanged_returnsConflict(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{}`)
	f.Reply(statusPatch, 409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the object has been modified"}`)
	if _, err := w.WriteStatus(t.Context(), a, someAdvice, time.Now(), provided); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("error %v", err)
	}
	var ops []struct{ Op, Path string }
	if err := json.Unmarshal([]byte(f.Body(statusPatch)), &ops); err != nil || len(ops) != 2 ||
		ops[0].Path != "/metadata/resourceVersion" || ops[1].Op != "add" || ops[1].Path != "/status" {
		t.Errorf("patch %s", f.Body(statusPatch))
	}
	replaced := *a
	replaced.UID = "another"
	if _, err := w.WriteStatus(t.Context(), &replaced, someAdvice, time.Now(), provided); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("error %v for an autoscaler that was replaced", err)
	}
}

func TestWriteStatus_apiServerUnavailable_isNotWrittenTwice(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w, a := worldWithAutoscaler(t, f, `{}`)
	f.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if wrote, err := w.WriteStatus(ctx, a, someAdvice, time.Now(), provided); wrote || err == nil {
		t.Errorf("wrote %t, error %v", wrote, err)
	}
	f.Start()
	kubetest.Eventually(t, "the status is written afterwards", func() bool {
		wrote, err := w.WriteStatus(t.Context(), a, someAdvice, time.Now(), provided)
		return wrote && err == nil
	})
}

func TestWriteStatus_dryRun_isStoredButNotSent(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{Writing: Writing{DryRun: true}})
	a := w.Autoscaler(kubetest.WebKey)
	problem := Condition{Type: v1alpha1.ConditionSizingProfileUsable, Status: False, Reason: v1alpha1.ReasonDeleted, Message: "SizingProfile x is missing"}
	for i, want := range []bool{true, false} {
		if wrote, err := w.WriteStatus(t.Context(), a, someAdvice, kubetest.At(t, "2026-03-01T12:00:00Z"), provided, problem); wrote != want || err != nil {
			t.Errorf("%d: wrote %t, want %t; error %v", i, wrote, want, err)
		}
	}
	for name, got := range map[string]*cluster.Autoscaler{"by name": w.Autoscaler(kubetest.WebKey), "by target": w.Governing(a.Target)} {
		if diff := cmp.Diff(someAdvice, got.Advice); diff != "" {
			t.Errorf("%s, recommendations (-want +got):\n%s", name, diff)
		}
		if got.ProfileProblem != problem.Reason || !got.Remarked || got.Target != a.Target || got.Generation != 4 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(a.Advice) != 0 {
		t.Error("the autoscaler that was returned before has changed")
	}
	for _, r := range f.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("sent: %s", r)
		}
	}
}

// Upstream's older CRDs have no status.observedGeneration, so the API server removes the field from writes.
func TestWriteStatus_CRDWithoutObservedGeneration_writesOnce(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.PruneWrites(func(o map[string]any) {
		if status, ok := o["status"].(map[string]any); ok {
			delete(status, "observedGeneration")
		}
	})
	w, a := worldWithAutoscaler(t, f, `{}`)
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	for i := range 3 {
		wrote, err := w.WriteStatus(t.Context(), a, someAdvice, now, provided)
		if err != nil || wrote != (i == 0) {
			t.Errorf("pass %d: wrote %t, error %v", i, wrote, err)
		}
	}
	if wrote, err := w.WriteStatus(t.Context(), a, nil, now, provided); err != nil || !wrote {
		t.Errorf("a changed recommendation is written: %t, want true; error %v", wrote, err)
	}
}
