// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"encoding/json"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/fake"

	"podfit.dev/podfit/test/kubetest"
)

// The annotation names the expression that podfit has added to the namespaceSelector, so that it can be removed later.
func TestRegistrar_storedConfiguration_isReadAndWrittenTheSame(t *testing.T) {
	ignoring := usual
	ignoring.Ignored = []string{"kube-system", "lab"}
	client := fake.NewClientset()
	ensure(t, client, ignoring, "CA")
	written := registered(t, client)
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": written.Name, "annotations": written.Annotations}, "webhooks": written.Webhooks})
	if err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "webhook-configuration.json", data)

	var stored admissionregistrationv1.MutatingWebhookConfiguration
	if err := json.Unmarshal(golden, &stored); err != nil {
		t.Fatal(err)
	}
	client = fake.NewClientset(&stored)
	if did := ensure(t, client, ignoring, "CA"); did != Unchanged {
		t.Errorf("the same settings: %v", did)
	}
	ensure(t, client, usual, "CA")
	if got := registered(t, client); len(got.Annotations) > 0 || len(got.Webhooks[0].NamespaceSelector.MatchExpressions) > 0 {
		t.Errorf("without ignored namespaces, the configuration keeps %v and %+v", got.Annotations, got.Webhooks[0].NamespaceSelector)
	}
}
