// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// ownPodsCondition is the name of the match condition by which the API server does not ask the webhook about podfit's own
// pods. It is there where pods are refused while the webhook does not answer: else podfit could not start again.
const ownPodsCondition = "not-own-pods.podfit.dev"

// ownLabels are the labels by which podfit's own pods are known, in its own namespace: those of deploy/ and of upstream's
// Helm chart.
var ownLabels = []struct {
	label  string
	values []string
}{
	{"app", []string{"vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"}},
	{"app.kubernetes.io/name", []string{"vertical-pod-autoscaler", "podfit"}},
}

// ownPodsExpression returns the expression, in CEL, that is false for podfit's own pods.
func ownPodsExpression(namespace string) string {
	expression := fmt.Sprintf(`!(request.namespace == %s && request.resource.group == "" && request.resource.resource == "pods" && `+
		`has(object.metadata.labels) && (`, strconv.Quote(namespace))
	for i, l := range ownLabels {
		if i > 0 {
			expression += " || "
		}
		expression += fmt.Sprintf("%q in object.metadata.labels && object.metadata.labels[%q] in [", l.label, l.label)
		for j, value := range l.values {
			if j > 0 {
				expression += ", "
			}
			expression += strconv.Quote(value)
		}
		expression += "]"
	}
	return expression + "))"
}

// exceptOwnPods puts podfit's match condition into a webhook, or takes it out. Others stay.
func (r *Registrar) exceptOwnPods(w *admissionregistrationv1.MutatingWebhook) {
	at := slices.IndexFunc(w.MatchConditions, isOwnPodsCondition)
	if !r.want.Fail || r.want.Service.Namespace == "" || r.unconditional {
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

// noteConditions finds out whether the API server has dropped the match condition: one before Kubernetes 1.28 does not know
// it, and asking for it again at every look would be in vain.
func (r *Registrar) noteConditions(asked, got *admissionregistrationv1.MutatingWebhookConfiguration) {
	has := func(c *admissionregistrationv1.MutatingWebhookConfiguration) bool {
		return slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
			return w.Name == webhookName && slices.ContainsFunc(w.MatchConditions, isOwnPodsCondition)
		})
	}
	if has(asked) && !has(got) {
		r.unconditional = true
	}
}
