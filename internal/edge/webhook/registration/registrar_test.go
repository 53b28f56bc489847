// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"podfit.dev/podfit/internal/core/cluster"
)

var (
	serviceKey = cluster.Key{Namespace: "kube-system", Name: "vpa-webhook"}
	usual      = Config{Service: serviceKey, Timeout: 30}
)

func registered(t *testing.T, client *fake.Clientset) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ensure(t *testing.T, client *fake.Clientset, want Config, bundle string) Change {
	t.Helper()
	did, err := NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), want).Ensure(t.Context(), []byte(bundle))
	if err != nil {
		t.Fatal(err)
	}
	return did
}

func TestRegistrar_noConfiguration_createsTheSameAsUpstream(t *testing.T) {
	client := fake.NewClientset()
	if did := ensure(t, client, usual, "CA"); did != Created {
		t.Errorf("change %v", did)
	}
	got := registered(t, client)
	text, err := json.Marshal(got.Webhooks)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"vpa.k8s.io","clientConfig":{"service":{"namespace":"kube-system","name":"vpa-webhook"},"caBundle":"Q0E="},` +
		`"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]},` +
		`{"operations":["CREATE","UPDATE"],"apiGroups":["autoscaling.k8s.io"],"apiVersions":["*"],"resources":["verticalpodautoscalers"]}],` +
		`"failurePolicy":"Ignore","sideEffects":"None","timeoutSeconds":30,"admissionReviewVersions":["v1"]}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

func TestRegistrar_changedFlags_updateTheConfiguration(t *testing.T) {
	client := fake.NewClientset()
	ensure(t, client, Config{
		URL: "https://10.0.0.1:8443", Labels: map[string]string{"a": "b"}, Fail: true, Timeout: 5, Ignored: []string{"", "z", "kube-system"},
	}, "CA")
	c := registered(t, client)
	w := c.Webhooks[0]
	if w.ClientConfig.Service != nil || *w.ClientConfig.URL != "https://10.0.0.1:8443" || *w.FailurePolicy != "Fail" || *w.TimeoutSeconds != 5 || c.Labels["a"] != "b" {
		t.Errorf("configuration %+v", c)
	}
	want := []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: "NotIn", Values: []string{"kube-system", "z"}}}
	if diff := cmp.Diff(want, w.NamespaceSelector.MatchExpressions); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}

	ensure(t, client, Config{Service: serviceKey, Timeout: 30, Namespace: "shop"}, "CA2")
	w = registered(t, client).Webhooks[0]
	if w.ClientConfig.URL != nil || w.ClientConfig.Service.Name != "vpa-webhook" || string(w.ClientConfig.CABundle) != "CA2" || *w.FailurePolicy != "Ignore" {
		t.Errorf("configuration %+v", w)
	}
	want = []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: []string{"shop"}}}
	if diff := cmp.Diff(want, w.NamespaceSelector.MatchExpressions); diff != "" {
		t.Errorf("one namespace (-want +got):\n%s", diff)
	}

	ensure(t, client, usual, "CA2")
	c = registered(t, client)
	if n := len(c.Webhooks[0].NamespaceSelector.MatchExpressions); n != 0 || len(c.Annotations) != 0 {
		t.Errorf("for all namespaces: %d expressions and annotations %v, want none", n, c.Annotations)
	}
}

// upstreamConfiguration returns the configuration that upstream's admission controller creates, including W-17.
func upstreamConfiguration() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "vpa-webhook-config", ResourceVersion: "7"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "vpa.k8s.io",
			AdmissionReviewVersions: []string{"v1"},
			Rules:                   rules(),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "kube-system", Name: "vpa-webhook", Port: new(int32(443))}, CABundle: []byte("CA"),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: "NotIn", Values: []string{""}},
			}},
			MatchPolicy:        new(admissionregistrationv1.Equivalent),
			ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
			ObjectSelector:     &metav1.LabelSelector{},
		}},
	}
}

func TestRegistrar_upstreamsConfiguration_isPatched(t *testing.T) {
	client := fake.NewClientset(upstreamConfiguration())
	if did := ensure(t, client, usual, "CA"); did != Patched {
		t.Errorf("change %v", did)
	}
	w := registered(t, client).Webhooks[0]
	if len(w.NamespaceSelector.MatchExpressions) != 0 {
		t.Errorf("the selector without effect is not removed: %+v", w.NamespaceSelector)
	}
	if w.ClientConfig.Service.Port == nil || w.MatchPolicy == nil {
		t.Errorf("fields that podfit does not set are removed: %+v", w)
	}
}

func TestRegistrar_fieldsOfAnAdministrator_areKept(t *testing.T) {
	c := upstreamConfiguration()
	c.Labels = map[string]string{"team": "sre"}
	c.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "x"}
	c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"vpa": "yes"}}
	c.Webhooks[0].ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
	c.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "no-jobs", Expression: "true"}}
	c.Webhooks[0].Rules[0].Scope = new(admissionregistrationv1.NamespacedScope)
	expression := metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: "NotIn", Values: []string{"secret"}}
	c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"env": "prod"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression},
	}
	other := admissionregistrationv1.MutatingWebhook{Name: "other.example.com", AdmissionReviewVersions: []string{"v1"}}
	c.Webhooks = append([]admissionregistrationv1.MutatingWebhook{other}, c.Webhooks...)
	client := fake.NewClientset(c.DeepCopy())

	want := usual
	want.Ignored = []string{"kube-system"}
	want.Timeout = 10
	want.Labels = map[string]string{"a": "b"}
	ensure(t, client, want, "CA2")
	ensure(t, client, usual, "CA2") // removes the expression that podfit added, not the administrator's

	expected := c.DeepCopy()
	expected.Labels["a"] = "b"
	expected.Webhooks[1].ClientConfig.CABundle = []byte("CA2")
	got := registered(t, client)
	got.ManagedFields = nil
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestRegistrar_ensureTwice_writesOnce(t *testing.T) {
	for name, want := range map[string]Config{
		"usual": usual, "by URL": {URL: "https://x", Timeout: 1}, "one namespace": {Service: serviceKey, Namespace: "shop", Timeout: 1},
		"ignored namespaces": {Service: serviceKey, Ignored: []string{"b", "a"}, Timeout: 1, Labels: map[string]string{"a": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(upstreamConfiguration())
			ensure(t, client, want, "CA")
			// The defaults that the API server sets do not count as a difference.
			c := registered(t, client)
			for i := range c.Webhooks[0].Rules {
				c.Webhooks[0].Rules[i].Scope = new(admissionregistrationv1.AllScopes)
			}
			if c.Webhooks[0].NamespaceSelector == nil {
				c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{}
			}
			if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			client.ClearActions()
			if did := ensure(t, client, want, "CA"); did != Unchanged {
				t.Errorf("change %v", did)
			}
			for _, a := range client.Actions() {
				if a.GetVerb() != "get" {
					t.Errorf("request to the API server: %s", a.GetVerb())
				}
			}
		})
	}
}

func TestRegistrar_changedFlags_neverDeleteTheConfiguration(t *testing.T) { // W-18
	client := fake.NewClientset(upstreamConfiguration())
	ensure(t, client, Config{URL: "https://x", Timeout: 1, Fail: true}, "CA2")
	ensure(t, client, usual, "CA")
	if slices.ContainsFunc(verbs(client), func(v string) bool { return v == "delete" || v == "update" }) {
		t.Errorf("verbs %v", verbs(client))
	}
}

// Remove deletes a configuration with a URL only if this process created it and nothing else uses it.
func TestRegistrar_remove_deletesOnlyItsOwnConfiguration(t *testing.T) {
	byURL := Config{URL: "https://10.0.0.1:8443", Timeout: 10}
	for name, c := range map[string]struct {
		want    Config
		change  func(*admissionregistrationv1.MutatingWebhookConfiguration)
		removed bool
	}{
		"unchanged":      {want: byURL, removed: true},
		"labels changed": {want: byURL, change: func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Labels = map[string]string{"a": "b"} }, removed: true},
		"by service":     {want: usual},
		"created again":  {want: byURL, change: func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.UID = "another" }},
		"with another URL": {want: byURL, change: func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.URL = new("https://x")
		}},
		"with two webhooks": {want: byURL, change: func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks = append(c.Webhooks, c.Webhooks[0])
		}},
		"without webhooks": {want: byURL, change: func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Webhooks = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientThatSetsUIDs()
			configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
			r := NewRegistrar(configurations, c.want)
			if did, err := r.Ensure(t.Context(), []byte("CA")); did != Created || err != nil {
				t.Fatalf("change %v, %v", did, err)
			}
			if c.change != nil {
				live := registered(t, client)
				c.change(live)
				if _, err := configurations.Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			did, err := r.Remove(t.Context())
			if err != nil || (did == Removed) != c.removed {
				t.Errorf("change %v, %v", did, err)
			}
			if _, err := configurations.Get(t.Context(), ConfigurationName, metav1.GetOptions{}); apierrors.IsNotFound(err) != c.removed {
				t.Errorf("afterwards: the configuration is not found: %v, want %t", err, c.removed)
			}
		})
	}
	client := fake.NewClientset(upstreamConfiguration()) // it existed before
	r := NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), byURL)
	if _, err := r.Ensure(t.Context(), []byte("CA")); err != nil {
		t.Fatal(err)
	}
	if did, err := r.Remove(t.Context()); did != Unchanged || err != nil {
		t.Errorf("a configuration that existed before: change %v, %v", did, err)
	}
}

// clientThatSetsUIDs returns a client whose API server sets a UID in each object that it creates.
func clientThatSetsUIDs() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m, err := meta.Accessor(a.(clienttesting.CreateAction).GetObject()); err == nil {
			m.SetUID("1")
		}
		return false, nil, nil
	})
	return client
}

func verbs(client *fake.Clientset) (out []string) {
	for _, a := range client.Actions() {
		out = append(out, a.GetVerb())
	}
	return out
}

func TestURL_addressAndPort_areJoined(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"https://h", "443"}: "https://h:443", {"h", "443"}: "https://h:443", {"https://h", ""}: "https://h", {"[::1]", "1"}: "https://[::1]:1",
	} {
		if got := URL(in[0], in[1]); got != want {
			t.Errorf("URL(%v) = %s, want %s", in, got, want)
		}
	}
}
