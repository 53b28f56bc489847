// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// ownPodsCondition is the name of the match condition that excludes podfit's own pods from the webhook. It is set with the failure
// policy Fail, because otherwise the API server would reject podfit's own pods while no replica answers.
const ownPodsCondition = "not-own-pods.podfit.dev"

// ownLabels are the labels of podfit's own pods in its own namespace, in deploy/ and in upstream's Helm chart.
var ownLabels = []struct {
	label  string
	values []string
}{
	{"app", []string{"vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"}},
	{"app.kubernetes.io/name", []string{"vertical-pod-autoscaler", "podfit"}},
}

// ownPodsExpression returns a CEL expression that is false for podfit's own pods.
func ownPodsExpression(namespace string) string {
	var labels []string
	for _, l := range ownLabels {
		var values []string
		for _, value := range l.values {
			values = append(values, strconv.Quote(value))
		}
		labels = append(labels, fmt.Sprintf("%q in object.metadata.labels && object.metadata.labels[%q] in [%s]", l.label, l.label, strings.Join(values, ", ")))
	}
	return fmt.Sprintf(`!(request.namespace == %q && request.resource.group == "" && request.resource.resource == "pods" && `+
		`has(object.metadata.labels) && (%s))`, namespace, strings.Join(labels, " || "))
}

// excludeOwnPods adds podfit's match condition to a webhook, or removes it. Other conditions stay.
func (r *Registrar) excludeOwnPods(w *admissionregistrationv1.MutatingWebhook) {
	at := slices.IndexFunc(w.MatchConditions, isOwnPodsCondition)
	if !r.want.Fail || r.want.Service.Namespace == "" || r.noConditions {
		if at >= 0 {
			w.MatchConditions = slices.Delete(w.MatchConditions, at, at+1)
		}
		return
	}
	condition := admissionregistrationv1.MatchCondition{Name: ownPodsCondition, Expression: ownPodsExpression(r.want.Service.Namespace)}
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
