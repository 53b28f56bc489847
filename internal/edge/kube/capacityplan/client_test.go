// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"errors"
	"net/http"
	"testing"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// If an answer of a proxy counted as a plan without a history, the stored history would be replaced by an empty one.
func TestClient_answerIsNoPlan_isAnError(t *testing.T) {
	const collection = "/apis/podfit.dev/v1alpha1/capacityplans"
	for name, answer := range map[string]string{
		"no fields": "{}", "null": "null", "text": `"ok"`, "cut off": `{"metadata":{"na`, "page": "<html>", "empty": "",
		"status": `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
	} {
		f := kubetest.NewFakeAPI(t)
		clients, err := kube.ClientsFor(f.Config())
		if err != nil {
			t.Fatal(err)
		}
		c := New(clients)
		object := collection + "/" + v1alpha1.CapacityPlanName
		f.Reply("GET "+object, http.StatusOK, answer)
		f.Reply("POST "+collection, http.StatusCreated, answer)
		f.Reply("PATCH "+object+"/status", http.StatusOK, answer)
		_, read := c.Read(t.Context())
		_, created := c.Create(t.Context())
		_, written := c.WriteStatus(t.Context(), "1", &v1alpha1.CapacityPlanStatus{})
		for what, err := range map[string]error{"read": read, "create": created, "write": written} {
			if err == nil || errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %s: %v, want an error that is not about a stored plan", name, what, err)
			}
		}
	}
}
