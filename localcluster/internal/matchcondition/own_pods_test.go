// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package matchcondition_test evaluates podfit's match condition with the code of the API server.
package matchcondition_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The test of package internal/edge/webhook/registration checks that podfit registers this expression.
const ownPods = `!(request.namespace == "kube-system" && request.resource.group == "" && request.resource.resource == "pods" && ` +
	`has(object.metadata.labels) && (` +
	`"app" in object.metadata.labels && object.metadata.labels["app"] in ["vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"] || ` +
	`"app.kubernetes.io/name" in object.metadata.labels && object.metadata.labels["app.kubernetes.io/name"] in ["vertical-pod-autoscaler", "podfit"]))`

func TestMatchCondition_podfitsOwnPods_areExcluded(t *testing.T) {
	hook := webhook.NewMutatingWebhookAccessor("uid", "vpa-webhook-config", &admissionregistrationv1.MutatingWebhook{
		Name: "vpa.k8s.io", FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-own-pods.podfit.dev", Expression: ownPods}},
	})
	matcher := hook.GetCompiledMatcher(cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())))
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		namespace string
		labels    map[string]string
		resource  schema.GroupVersionResource
		matches   bool
	}{
		"own admission controller":                     {"kube-system", map[string]string{"app": "vpa-admission-controller"}, pods, false},
		"own, all jobs in one process":                 {"kube-system", map[string]string{"app": "podfit", "app.kubernetes.io/name": "podfit"}, pods, false},
		"own, installed by the Helm chart":             {"kube-system", map[string]string{"app.kubernetes.io/name": "vertical-pod-autoscaler"}, pods, false},
		"another pod in kube-system":                   {"kube-system", map[string]string{"app": "coredns"}, pods, true},
		"another pod in kube-system, no labels":        {"kube-system", nil, pods, true},
		"pod in another namespace with podfit's label": {"shop", map[string]string{"app": "podfit"}, pods, true},
		"VPA": {"kube-system", map[string]string{"app": "podfit"},
			schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}, true},
	} {
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "p-", Labels: c.labels},
		}
		kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		attributes := &admission.VersionedAttributes{
			Attributes:      admission.NewAttributesRecord(pod, nil, kind, c.namespace, "", c.resource, "", admission.Create, &metav1.CreateOptions{}, false, nil),
			VersionedObject: pod, VersionedKind: kind,
		}
		got := matcher.Match(t.Context(), attributes, nil, nil)
		if got.Error != nil || got.Matches != c.matches {
			t.Errorf("%s: match is %t, %v", name, got.Matches, got.Error)
		}
	}
}
