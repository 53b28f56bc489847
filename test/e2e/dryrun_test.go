// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// requestsReset has a webhook that is called after podfit's and resets the requests of new pods. One pod is evicted without effect, or none if
// the last eviction of another workload had no effect. After that, a dry run shows that a replacement would not get the recommended requests:
// no other pod is evicted, and the condition Updating of the VPA says that another webhook, policy or LimitRange changes the requests.
func requestsReset(t *testing.T, name string) {
	p := newPlace(t, name)
	server := httptest.NewTLSServer(http.HandlerFunc(resetRequests))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w := steady("steady")
	w.Replicas = 3
	p.apply(w.manifest(), w.ownAutoscaler("Recreate"))
	p.start("steady", 3)
	p.applyGlobal(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: zz-%[1]s}
webhooks:
- name: reset.test.podfit.dev
  clientConfig: {url: "%[2]s/", caBundle: "%[3]s"}
  failurePolicy: Fail
  sideEffects: None
  reinvocationPolicy: IfNeeded
  admissionReviewVersions: [v1]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`, p.ns, server.URL, base64.StdEncoding.EncodeToString(ca)))
	p.advise("350m", "262144k", "steady")
	p.eventually("the condition says that another webhook changes the requests", 2*resized,
		p.says("steady", updatingCondition, "NotSizedAtAdmission", "The admission controller was called, so another webhook, policy or LimitRange changes the requests afterwards"))
	p.always("no other pod is evicted", 20*time.Second, func(context.Context) error {
		if n := len(p.evictions()); n > 1 {
			return fmt.Errorf("%d pods were evicted, want at most 1", n)
		}
		return nil
	})
	if pods := p.start("steady", 3); len(pods) != 3 { // a dry run that creates a pod would leave four
		t.Errorf("there are %d pods, want 3", len(pods))
	}
	p.eventually("an event is written", resized, p.eventOf("UpdateHeld"))
}

// resetRequests is a mutating webhook that sets the CPU request of the first container to 123m.
func resetRequests(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	json6902 := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, PatchType: &json6902,
		Patch: []byte(`[{"op": "replace", "path": "/spec/containers/0/resources/requests", "value": {"cpu": "123m", "memory": "50Mi"}}]`),
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // on an error the API server gets no answer, and rejects the pod
}
