// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// The names of the registration, which tools and users know.
const (
	ConfigurationName = "vpa-webhook-config"
	webhookName       = "vpa.k8s.io"

	// namespacesAnnotation records the namespace expression that podfit put into the selector, so that it
	// can take it out again, and leaves alone what an administrator put there.
	namespacesAnnotation = "podfit.dev/webhook-namespaces"

	namespaceLabel = "kubernetes.io/metadata.name"
	fieldManager   = "podfit-admission-controller"
)

// A Config is how the API server is to call the webhook.
type Config struct {
	Service   cluster.Key       // the service in front of the webhook; not used when URL is set
	URL       string            // where the API server reaches the webhook without a service
	Labels    map[string]string // of the configuration object
	Fail      bool              // refuse pods while the webhook does not answer
	Timeout   int32             // seconds the API server waits for an answer
	Namespace string            // only pods and autoscalers of this namespace; "" is all
	Ignored   []string          // not those of these namespaces
}

// Names returns the names under which the webhook may be called, the API server's first.
func (c Config) Names() ([]string, error) {
	if c.URL == "" {
		s, ns := c.Service.Name, c.Service.Namespace
		return []string{s + "." + ns + ".svc", s + "." + ns + ".svc.cluster.local", s + "." + ns, s}, nil
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read the webhook's URL: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("the webhook's URL %q is not https://host:port", c.URL)
	}
	return []string{u.Hostname()}, nil
}

// URL makes the address of a webhook without a service from an address and a port; each but the host may be missing.
func URL(address, port string) string {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	if port == "" {
		return address
	}
	return address + ":" + port
}

// A Registrar keeps the webhook registered. It never removes the registration to make it anew: many replicas may assert the
// same one at the same time, and what an administrator adds to it stays.
type Registrar struct {
	client typedv1.MutatingWebhookConfigurationInterface
	want   Config
	made   types.UID // of the configuration that this process has created last, if any
	filled types.UID // of the configuration without webhooks that this process has put its own into last, if any

	unconditional bool // the API server does not know match conditions
}

// NewRegistrar returns a registrar.
func NewRegistrar(client typedv1.MutatingWebhookConfigurationInterface, want Config) *Registrar {
	return &Registrar{client: client, want: want}
}

// What an assertion did.
type Change uint8

const (
	Unchanged Change = iota
	Created
	Patched
	Removed
)

// assert makes the registration what it should be, trusting a bundle of CAs, and says what it had to do.
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
	patch, err := mergePatch(live, want)
	if err != nil {
		return Unchanged, err
	}
	got, err := r.client.Patch(ctx, ConfigurationName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return Unchanged, fmt.Errorf("patch webhook configuration %s: %w", ConfigurationName, err)
	}
	r.noteConditions(want, got)
	if len(live.Webhooks) == 0 { // as deploy/ ships it
		r.filled = got.UID
		return Created, nil
	}
	return Patched, nil
}

func (r *Registrar) create(ctx context.Context, bundle []byte) (Change, error) {
	want := r.merge(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}, bundle)
	live, err := r.client.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsForbidden(err) {
		return Unchanged, fmt.Errorf("webhook configuration %s does not exist and may not be created: kubectl apply -f deploy/15-webhook-objects.yaml "+
			"creates it empty, and podfit fills it: %w", ConfigurationName, err)
	}
	if err != nil { // AlreadyExists: another replica was faster; the next assertion compares with what it made
		return Unchanged, fmt.Errorf("create webhook configuration %s: %w", ConfigurationName, err)
	}
	r.noteConditions(want, live)
	r.made = live.UID
	return Created, nil
}

// withdraw deletes the configuration if it is the one that this process has created, and still is of this webhook alone. One
// that it has found empty it leaves empty.
func (r *Registrar) Remove(ctx context.Context) (Change, error) {
	live, err := r.client.Get(ctx, ConfigurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Removed, nil
	}
	if err != nil {
		return Unchanged, fmt.Errorf("read webhook configuration %s: %w", ConfigurationName, err)
	}
	if live.UID != r.made && live.UID != r.filled || live.UID == "" || len(live.Webhooks) != 1 || live.Webhooks[0].Name != webhookName {
		return Unchanged, nil
	}
	if url := live.Webhooks[0].ClientConfig.URL; url == nil || *url != r.want.URL {
		return Unchanged, nil
	}
	if live.UID == r.filled {
		return r.empty(ctx, live)
	}
	err = r.client.Delete(ctx, ConfigurationName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
	})
	switch {
	case err == nil:
		return Removed, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is somebody else's now
		return Unchanged, nil
	}
	return Unchanged, fmt.Errorf("delete webhook configuration %s: %w", ConfigurationName, err)
}

// empty takes the webhook out of a configuration that has no other.
func (r *Registrar) empty(ctx context.Context, live *admissionregistrationv1.MutatingWebhookConfiguration) (Change, error) {
	without := live.DeepCopy()
	without.Webhooks = []admissionregistrationv1.MutatingWebhook{}
	patch, err := mergePatch(live, without)
	if err != nil {
		return Unchanged, err
	}
	_, err = r.client.Patch(ctx, ConfigurationName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		return Removed, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is somebody else's now
		return Unchanged, nil
	}
	return Unchanged, fmt.Errorf("patch webhook configuration %s: %w", ConfigurationName, err)
}

// mergePatch writes what an assertion changes. It carries the version it was computed from, so that it fails
// rather than undo what somebody changed meanwhile: a merge patch replaces the list of webhooks as a whole.
func mergePatch(live, want *admissionregistrationv1.MutatingWebhookConfiguration) ([]byte, error) {
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
		return nil, fmt.Errorf("write patch of webhook configuration: %w", err)
	}
	return patch, nil
}

// merge returns what the live configuration should be: what podfit owns set, everything else as it is.
func (r *Registrar) merge(live *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := live.DeepCopy()
	if len(r.want.Labels) > 0 {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		maps.Copy(c.Labels, r.want.Labels)
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
	r.exceptOwnPods(w)
	return c
}

func (r *Registrar) clientConfig(live admissionregistrationv1.WebhookClientConfig, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	live.CABundle = bundle
	if r.want.URL != "" {
		live.URL, live.Service = &r.want.URL, nil
		return live
	}
	live.URL = nil
	if live.Service == nil { // else its path and port stay
		live.Service = &admissionregistrationv1.ServiceReference{}
	}
	live.Service.Namespace, live.Service.Name = r.want.Service.Namespace, r.want.Service.Name
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

// withoutScope drops the scope, which the API server fills in.
func withoutScope(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Scope = nil
	}
	return out
}

// selectNamespaces puts podfit's namespace expression into the selector, in place of the one it put there before.
func (r *Registrar) selectNamespaces(c *admissionregistrationv1.MutatingWebhookConfiguration, w *admissionregistrationv1.MutatingWebhook) {
	want := r.namespaces()
	before := c.Annotations[namespacesAnnotation]
	var keep []metav1.LabelSelectorRequirement
	if w.NamespaceSelector != nil {
		for _, e := range w.NamespaceSelector.MatchExpressions {
			// Upstream writes NotIn [""] when it has nothing to say: it excludes nothing, and confuses readers.
			void := e.Key == namespaceLabel && e.Operator == metav1.LabelSelectorOpNotIn && slices.Equal(e.Values, []string{""})
			if !void && expression(&e) != before && (want == nil || expression(&e) != expression(want)) {
				keep = append(keep, e)
			}
		}
	}
	if want != nil {
		keep = append(keep, *want)
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[namespacesAnnotation] = expression(want)
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

// namespaces returns the expression that selects the namespaces podfit serves, nil when it serves all.
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

// expression writes an expression on one line, its values sorted.
func expression(e *metav1.LabelSelectorRequirement) string {
	values := slices.Clone(e.Values)
	slices.Sort(values)
	return fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(values, ","))
}
