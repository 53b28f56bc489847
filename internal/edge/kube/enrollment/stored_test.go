// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"encoding/json"
	"testing"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// The VPA of a namespace that opts in, and the annotation at the end.
func TestVPA_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	s := optin.Setting{Mode: cluster.Recreate, Profile: "cost", Policy: cluster.ContainerPolicy{Container: "*", MinAllowed: cluster.Amounts(100, 64<<20), MaxAllowed: cluster.Amounts(2000, 1<<30)}}
	f := kubetest.NewFakeAPI(t)
	f.Apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"u1"}}`)
	if err := clientOf(t, f).Write(t.Context(), now, change("create", s)); err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "vpa.json", []byte(f.Body("POST /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers")))
	read := func(data []byte) *cluster.Autoscaler {
		t.Helper()
		var o v1.VerticalPodAutoscaler
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		o.Namespace = "shop"
		return projection.Autoscaler(&o)
	}
	a := read(golden)
	namespaces := map[string]optin.Namespace{"shop": {Name: "shop", On: true, Setting: s}}
	if plan := (optin.Book{}).Plan(now, namespaces, []cluster.Workload{a.Target}, []*cluster.Autoscaler{a}); len(plan) > 0 || !a.OptedIn || !a.OptInEnded.IsZero() {
		t.Errorf("read as %+v, which is not up to date: %+v", a, plan)
	}

	f.Apply(vpas, `{"metadata":{"namespace":"shop","name":"`+vpaName+`","uid":"u2"}}`)
	if err := clientOf(t, f).Write(t.Context(), now, change("end", s)); err != nil {
		t.Fatal(err)
	}
	ended := read(kubetest.Stored(t, "vpa-ended.json", []byte(f.Body("PATCH "+vpaPath))))
	if !ended.OptInEnded.Equal(now) {
		t.Errorf("the end is read as %v, want %v", ended.OptInEnded, now)
	}
	if a := read([]byte(`{"metadata":{"labels":{"podfit.dev/namespace":"bank"},"annotations":{"podfit.dev/opt-in-ended":"2026-03-01T12:"}}}`)); a.OptedIn || !a.OptInEnded.IsZero() {
		t.Errorf("an invalid mark is read as %+v", a)
	}
}
