// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"encoding/json"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"

	core "podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// podfit fills the webhook configuration of the chart, keeps its selectors and annotations, and the next helm upgrade changes nothing.
func TestChart_webhookConfiguration_isFilledOnceAndKeepsSelectors(t *testing.T) {
	for name, set := range map[string][]string{
		"defaults": nil,
		"selectors, annotations and failure policy": {
			"admissionController.mutatingWebhookConfiguration.namespaceSelector.matchLabels.sized=yes",
			"admissionController.mutatingWebhookConfiguration.objectSelector.matchExpressions[0].key=a",
			"admissionController.mutatingWebhookConfiguration.objectSelector.matchExpressions[0].operator=Exists",
			"admissionController.mutatingWebhookConfiguration.annotations.owner=me",
		},
	} {
		all := of[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, set...), "MutatingWebhookConfiguration")
		if len(all) != 1 || all[0].Name != registration.ConfigurationName {
			t.Fatalf("%s: configurations %v", name, all)
		}
		chart := all[0]
		client := fake.NewClientset(chart.DeepCopy()).AdmissionregistrationV1().MutatingWebhookConfigurations()
		r := registration.NewRegistrar(client, registration.Config{Service: core.Key{Namespace: "kube-system", Name: "vpa-webhook"}, Timeout: 5})
		for i, want := range []registration.Change{registration.Created, registration.Unchanged} {
			got, err := r.Ensure(t.Context(), []byte("CA"))
			if set != nil && want == registration.Created {
				want = registration.Patched // only what the chart does not know: the CA
			}
			if err != nil || got != want {
				t.Errorf("%s, pass %d: %v, %v, want %v", name, i, got, err, want)
			}
		}
		live, err := client.Get(t.Context(), chart.Name, metav1.GetOptions{})
		if err != nil || len(live.Webhooks) != 1 || string(live.Webhooks[0].ClientConfig.CABundle) != "CA" {
			t.Fatalf("%s: %+v, %v", name, live, err)
		}
		if set != nil {
			w := live.Webhooks[0]
			if w.NamespaceSelector.MatchLabels["sized"] != "yes" || w.ObjectSelector.MatchExpressions[0].Key != "a" || live.Annotations["owner"] != "me" {
				t.Errorf("%s: %+v", name, live)
			}
		}
		manifest := encode(t, chart)
		meta, err := strategicpatch.NewPatchMetaFromStruct(chart)
		if err != nil {
			t.Fatal(err)
		}
		// What helm upgrade sends.
		patch, err := strategicpatch.CreateThreeWayMergePatch(manifest, manifest, encode(t, live), meta, true)
		if err != nil || string(patch) != "{}" {
			t.Errorf("%s: helm upgrade changes %s, %v", name, patch, err)
		}
	}
}

func encode(t *testing.T, o any) []byte {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The failure policy Fail must not be in the chart's object: until podfit has filled it, no pod could be created, not even podfit's.
func TestChart_failurePolicyFail_isSetByPodfitOnly(t *testing.T) {
	all := render(t, "admissionController.mutatingWebhookConfiguration.failurePolicy=Fail", "admissionController.mutatingWebhookConfiguration.objectSelector.matchLabels.a=b",
		"admissionController.mutatingWebhookConfiguration.timeoutSeconds=9")
	for _, c := range of[admissionregistrationv1.MutatingWebhookConfiguration](t, all, "MutatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			if *w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds != 9 {
				t.Errorf("failure policy %s, timeout %d", *w.FailurePolicy, *w.TimeoutSeconds)
			}
		}
	}
	args := deployment(t, all, "-admission-controller").Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--webhook-failure-policy-fail=true") || !slices.Contains(args, "--webhook-timeout-seconds=9") {
		t.Errorf("arguments %v", args)
	}
}
