// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package registration makes the webhook known to the API server. It reads or creates the certificates of the webhook, renews
// them, and keeps the MutatingWebhookConfiguration up to date.
//
// It does not serve reviews; package webhook does, and calls this package in a loop.
package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

// Names in the webhook configuration. They are the same as upstream's.
const (
	ConfigurationName = "vpa-webhook-config"
	webhookName       = "vpa.k8s.io"

	// namespacesAnnotation contains the namespace expression that podfit added to the selector, so that podfit can remove it
	// again without removing expressions of an administrator.
	namespacesAnnotation = "podfit.dev/webhook-namespaces"

	namespaceLabel = "kubernetes.io/metadata.name"
	fieldManager   = "podfit-admission-controller"
)

// A Config describes how the API server calls the webhook.
type Config struct {
	Service   cluster.Key       // the service of the webhook; not used if URL is set
	URL       string            // where the API server reaches the webhook without a service
	Labels    map[string]string // of the configuration object
	Fail      bool              // reject pods while the webhook does not answer
	Timeout   int32             // seconds that the API server waits for an answer
	Namespace string            // only pods and VPAs of this namespace; "" means all
	Ignored   []string          // except those of these namespaces
}

// Names returns the DNS names or the IP address of the webhook. The API server calls the first one.
func (c Config) Names() ([]string, error) {
	if c.URL == "" {
		s := c.Service.Name
		ns := c.Service.Namespace
		return []string{s + "." + ns + ".svc", s + "." + ns + ".svc.cluster.local", s + "." + ns, s}, nil
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the webhook: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("the URL of the webhook must be https://host:port, got %q", c.URL)
	}
	return []string{u.Hostname()}, nil
}

// URL returns the URL of a webhook. The address may lack the scheme, and the port may be empty.
func URL(address, port string) string {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	if port == "" {
		return address
	}
	return address + ":" + port
}

// A Registrar keeps the webhook configuration up to date. It patches the configuration and never replaces it, because several
// replicas may update it at the same time, and changes of an administrator must stay.
type Registrar struct {
	client  typedv1.MutatingWebhookConfigurationInterface
	want    Config
	created types.UID // of the configuration that this process created last, or ""
	filled  types.UID // of the empty configuration to which this process added the webhook last, or ""

	noConditions bool // the API server does not support match conditions
}

// NewRegistrar returns a registrar. It sends no request.
func NewRegistrar(client typedv1.MutatingWebhookConfigurationInterface, want Config) *Registrar {
	return &Registrar{client: client, want: want}
}

// A Change is the result of a call of Ensure or Remove.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Created
	Patched
	Removed
	Emptied // the configuration exists without the webhook
	Absent  // there was none to remove
)

// Ensure creates or corrects the webhook configuration. bundle is the CAs that the API server must trust, in PEM.
func (r *Registrar) Ensure(ctx context.Context, bundle []byte) (Change, error) {
	live, err := r.client.Get(ctx, ConfigurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r.create(ctx, bundle)
	}
	if err != nil {
		return Unchanged, fmt.Errorf("read webhook configuration %s: %w", ConfigurationName, err)
	}
	want := r.merge(live, bundle)
	if equality.Semantic.DeepEqual(live, want) {
		return Unchanged, nil
	}
	got, err := r.patch(ctx, live, want)
	if err != nil {
		return Unchanged, fmt.Errorf("patch webhook configuration %s: %w", ConfigurationName, err)
	}
	r.detectMatchConditions(want, got)
	if len(live.Webhooks) == 0 { // deploy/ creates it empty
		r.filled = got.UID
		return Created, nil
	}
	return Patched, nil
}

func (r *Registrar) create(ctx context.Context, bundle []byte) (Change, error) {
	want := r.merge(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}, bundle)
	live, err := r.client.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsForbidden(err) {
		return Unchanged, fmt.Errorf("webhook configuration %s does not exist and podfit may not create it; create it with "+
			"kubectl apply -f deploy/15-webhook-objects.yaml: %w", ConfigurationName, err)
	}
	if err != nil { // AlreadyExists: another replica has created it; the next Ensure compares with that
		return Unchanged, fmt.Errorf("create webhook configuration %s: %w", ConfigurationName, err)
	}
	r.detectMatchConditions(want, live)
	r.created = live.UID
	return Created, nil
}

// Remove deletes the webhook configuration if this process created it and it contains only this webhook. If this process found the
// configuration empty, Remove leaves it empty.
func (r *Registrar) Remove(ctx context.Context) (Change, error) {
	live, err := r.client.Get(ctx, ConfigurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Absent, nil
	}
	if err != nil {
		return Unchanged, fmt.Errorf("read webhook configuration %s: %w", ConfigurationName, err)
	}
	if live.UID != r.created && live.UID != r.filled || live.UID == "" || len(live.Webhooks) != 1 || live.Webhooks[0].Name != webhookName {
		return Unchanged, nil
	}
	if url := live.Webhooks[0].ClientConfig.URL; url == nil || *url != r.want.URL {
		return Unchanged, nil
	}
	if live.UID == r.filled {
		without := live.DeepCopy()
		without.Webhooks = []admissionregistrationv1.MutatingWebhook{}
		_, err = r.patch(ctx, live, without)
		return outcome(Emptied, "patch", err)
	}
	err = r.client.Delete(ctx, ConfigurationName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
	})
	return outcome(Removed, "delete", err)
}

// outcome returns the change that a request of Remove has made.
func outcome(change Change, verb string, err error) (Change, error) {
	switch {
	case err == nil:
		return change, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another controller has changed it
		return Unchanged, nil
	}
	return Unchanged, fmt.Errorf("%s webhook configuration %s: %w", verb, ConfigurationName, err)
}

// patch changes the live configuration to the wanted one. The patch contains the resource version, so that the API server rejects it
// if the configuration has changed in the meantime: a merge patch replaces the whole list of webhooks.
func (r *Registrar) patch(ctx context.Context, live, want *admissionregistrationv1.MutatingWebhookConfiguration) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	annotations := map[string]any{}
	if text, ok := want.Annotations[namespacesAnnotation]; ok {
		annotations[namespacesAnnotation] = text
	} else if _, ok := live.Annotations[namespacesAnnotation]; ok {
		annotations[namespacesAnnotation] = nil
	}
	meta := map[string]any{"annotations": annotations}
	if len(want.Labels) > 0 {
		meta["labels"] = want.Labels
	}
	if live.ResourceVersion != "" {
		meta["resourceVersion"] = live.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "webhooks": want.Webhooks})
	if err != nil {
		return nil, err
	}
	return r.client.Patch(ctx, ConfigurationName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// merge returns the live configuration with the fields that podfit owns.
func (r *Registrar) merge(live *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := live.DeepCopy()
	for key, value := range r.want.Labels {
		cluster.Put(&c.Labels, key, value)
	}
	i := slices.IndexFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == webhookName })
	if i < 0 {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{Name: webhookName})
		i = len(c.Webhooks) - 1
	}
	w := &c.Webhooks[i]
	w.ClientConfig = r.clientConfig(w.ClientConfig, bundle)
	if want := rules(); !equality.Semantic.DeepEqual(withoutScope(w.Rules), want) {
		w.Rules = want
	}
	policy := admissionregistrationv1.Ignore
	if r.want.Fail {
		policy = admissionregistrationv1.Fail
	}
	w.FailurePolicy = &policy
	w.SideEffects = new(admissionregistrationv1.SideEffectClassNone)
	w.TimeoutSeconds = new(r.want.Timeout)
	w.AdmissionReviewVersions = []string{"v1"}
	r.selectNamespaces(c, w)
	r.excludeOwnPods(w)
	return c
}

func (r *Registrar) clientConfig(live admissionregistrationv1.WebhookClientConfig, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	live.CABundle = bundle
	if r.want.URL != "" {
		live.URL = &r.want.URL
		live.Service = nil
		return live
	}
	live.URL = nil
	if live.Service == nil { // an existing path and port stay
		live.Service = &admissionregistrationv1.ServiceReference{}
	}
	live.Service.Namespace = r.want.Service.Namespace
	live.Service.Name = r.want.Service.Name
	return live
}

func rules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
		},
	}, {
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{v1.GroupName}, APIVersions: []string{"*"}, Resources: []string{v1.ResourceAutoscalers},
		},
	}}
}

// withoutScope removes the scope, which the API server sets by default.
func withoutScope(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Scope = nil
	}
	return out
}

// selectNamespaces replaces podfit's previous namespace expression in the selector with the current one.
func (r *Registrar) selectNamespaces(c *admissionregistrationv1.MutatingWebhookConfiguration, w *admissionregistrationv1.MutatingWebhook) {
	want := r.namespaces()
	before := c.Annotations[namespacesAnnotation]
	var keep []metav1.LabelSelectorRequirement
	if w.NamespaceSelector != nil {
		for _, e := range w.NamespaceSelector.MatchExpressions {
			// Upstream writes NotIn [""] if no namespace is ignored. It has no effect.
			noEffect := e.Key == namespaceLabel && e.Operator == metav1.LabelSelectorOpNotIn && slices.Equal(e.Values, []string{""})
			if !noEffect && expression(&e) != before && (want == nil || expression(&e) != expression(want)) {
				keep = append(keep, e)
			}
		}
	}
	if want != nil {
		keep = append(keep, *want)
		cluster.Put(&c.Annotations, namespacesAnnotation, expression(want))
	} else {
		delete(c.Annotations, namespacesAnnotation)
	}
	if w.NamespaceSelector == nil {
		if len(keep) == 0 {
			return
		}
		w.NamespaceSelector = &metav1.LabelSelector{}
	}
	w.NamespaceSelector.MatchExpressions = keep
}

// namespaces returns the expression that selects the namespaces that podfit serves, or nil if podfit serves all.
func (r *Registrar) namespaces() *metav1.LabelSelectorRequirement {
	ignored := slices.DeleteFunc(slices.Clone(r.want.Ignored), func(s string) bool { return s == "" })
	slices.Sort(ignored)
	switch {
	case len(ignored) > 0:
		return &metav1.LabelSelectorRequirement{Key: namespaceLabel, Operator: metav1.LabelSelectorOpNotIn, Values: ignored}
	case r.want.Namespace != "":
		return &metav1.LabelSelectorRequirement{Key: namespaceLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{r.want.Namespace}}
	}
	return nil
}

// expression formats an expression on one line, with sorted values.
func expression(e *metav1.LabelSelectorRequirement) string {
	values := slices.Clone(e.Values)
	slices.Sort(values)
	return fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(values, ","))
}

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
