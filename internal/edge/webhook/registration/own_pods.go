// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// ownPodsCondition is the name of the match condition that excludes podfit's own pods from the webhook. It is set with the failure
// policy Fail, because otherwise the API server would reject podfit's own pods while no replica answers.
const ownPodsCondition = "not-own-pods.podfit.dev"

// ownPodsExpression is a CEL expression that is false for podfit's own pods in the quoted namespace. They have the labels of deploy/ or of
// upstream's Helm chart.
const ownPodsExpression = `!(request.namespace == %q && request.resource.group == "" && request.resource.resource == "pods" && ` +
	`has(object.metadata.labels) && (` +
	`"app" in object.metadata.labels && object.metadata.labels["app"] in ["vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"] || ` +
	`"app.kubernetes.io/name" in object.metadata.labels && object.metadata.labels["app.kubernetes.io/name"] in ["vertical-pod-autoscaler", "podfit"]))`

// excludeOwnPods adds podfit's match condition to a webhook, or removes it. Other conditions stay.
func (r *Registrar) excludeOwnPods(w *admissionregistrationv1.MutatingWebhook) {
	at := slices.IndexFunc(w.MatchConditions, isOwnPodsCondition)
	if !r.want.Fail || r.want.Service.Namespace == "" || r.noConditions {
		if at >= 0 {
			w.MatchConditions = slices.Delete(w.MatchConditions, at, at+1)
		}
		return
	}
	expression := fmt.Sprintf(ownPodsExpression, r.want.Service.Namespace)
	condition := admissionregistrationv1.MatchCondition{Name: ownPodsCondition, Expression: expression}
	if at >= 0 {
		w.MatchConditions[at] = condition
	} else {
		w.MatchConditions = append(w.MatchConditions, condition)
	}
}

func isOwnPodsCondition(c admissionregistrationv1.MatchCondition) bool {
	return c.Name == ownPodsCondition
}

// detectMatchConditions detects whether the API server has dropped the match condition. Kubernetes before 1.28 does not support match
// conditions; without this check, podfit would patch the configuration again and again.
func (r *Registrar) detectMatchConditions(sent, got *admissionregistrationv1.MutatingWebhookConfiguration) {
	has := func(c *admissionregistrationv1.MutatingWebhookConfiguration) bool {
		return slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
			return w.Name == webhookName && slices.ContainsFunc(w.MatchConditions, isOwnPodsCondition)
		})
	}
	if has(sent) && !has(got) {
		r.noConditions = true
	}
}
