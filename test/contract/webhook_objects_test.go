// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// The manifest contains empty objects, which the admission controller fills. Applying the manifest again must not change them. The
// test computes the patch as kubectl apply does: from the last applied, the new and the current object.
func TestWebhookObjects_appliedAgain_keepWhatPodfitPutIn(t *testing.T) {
	text, err := os.ReadFile("../../deploy/15-webhook-objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := map[string]struct {
		schema any
		live   any
	}{
		"Secret": {&corev1.Secret{}, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: "vpa-tls-certs", Namespace: "kube-system", UID: "1", ResourceVersion: "7"},
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{"caCert.pem": []byte("CA"), "serverKey.pem": []byte("key")},
		}},
		"MutatingWebhookConfiguration": {&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "vpa-webhook-config", UID: "2", ResourceVersion: "8",
				Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"podfit.dev/webhook-namespaces": "x"},
			},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "vpa.k8s.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("CA")}}},
		}},
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		manifest, err := yaml.YAMLToJSON(doc)
		if err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := json.Unmarshal(manifest, &o); err != nil {
			t.Fatal(err)
		}
		kind := o["kind"].(string)
		if len(o) != 3 {
			t.Errorf("%s: the manifest says more than its name: %s", kind, manifest)
		}
		live, err := json.Marshal(filled[kind].live)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := strategicpatch.NewPatchMetaFromStruct(filled[kind].schema)
		if err != nil {
			t.Fatal(err)
		}
		for how, last := range map[string][]byte{"applied before": manifest, "created by podfit or upstream's script": nil} {
			patch, err := strategicpatch.CreateThreeWayMergePatch(last, manifest, live, meta, true)
			if err != nil || string(patch) != "{}" {
				t.Errorf("%s, %s: the patch is %s, %v", kind, how, patch, err)
			}
		}
		delete(filled, kind)
	}
	if len(filled) > 0 {
		t.Errorf("not shipped: %v", filled)
	}
}

// allInOne decodes the objects of a kind in the all-in-one manifest.
func allInOne[T any](t *testing.T, kind string) (out []T) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/all-in-one/podfit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var m metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind != kind {
			continue
		}
		var o T
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func deployments(t *testing.T) []*appsv1.Deployment {
	return append(only[*appsv1.Deployment](manifests(t)), allInOne[*appsv1.Deployment](t, "Deployment")...)
}

func TestDeployments_memory_isBoundedAndKnownToTheProcess(t *testing.T) {
	for _, d := range deployments(t) {
		c := d.Spec.Template.Spec.Containers[0]
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" }) {
			t.Errorf("%s: GOMEMLIMIT overrides the 90 %% of the memory limit that the process sets", d.Name)
		}
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "PODFIT_MEMORY_LIMIT" })
		if c.Resources.Limits.Memory().IsZero() || i < 0 || c.Env[i].ValueFrom == nil || c.Env[i].ValueFrom.ResourceFieldRef == nil ||
			c.Env[i].ValueFrom.ResourceFieldRef.Resource != "limits.memory" || !c.Env[i].ValueFrom.ResourceFieldRef.Divisor.IsZero() {
			t.Errorf("%s: limits %v, environment %+v", d.Name, c.Resources.Limits, c.Env)
		}
		if d.Name == "vpa-admission-controller" && c.Resources.Limits.Memory().String() != "500Mi" {
			t.Errorf("%s: the memory limit is %s", d.Name, c.Resources.Limits.Memory())
		}
	}
}

func TestDeployments_thatServeAdmission_areReadyOnlyWhenItWorks(t *testing.T) {
	seen := 0
	for _, d := range deployments(t) {
		if d.Name != "vpa-admission-controller" && d.Name != "podfit" {
			continue
		}
		seen++
		c := d.Spec.Template.Spec.Containers[0]
		if p := c.ReadinessProbe.HTTPGet.Path; p != "/readyz" {
			t.Errorf("%s: the readiness probe asks %s", d.Name, p)
		}
		if p := c.LivenessProbe.HTTPGet.Path; p != "/health-check" {
			t.Errorf("%s: the liveness probe asks %s", d.Name, p)
		}
		if s := d.Spec.Strategy.RollingUpdate; s == nil || s.MaxUnavailable.IntValue() != 0 {
			t.Errorf("%s: a rolling update may take a replica away before another is ready", d.Name)
		}
		if s := d.Spec.Template.Spec.TerminationGracePeriodSeconds; s == nil || *s < 20 {
			t.Errorf("%s: it has no time to answer while it is still called", d.Name)
		}
	}
	if seen != 2 {
		t.Errorf("%d deployments serve admission", seen)
	}
}

func TestNetworkPolicies_everyDeployment_isReachableOnItsPortsOnly(t *testing.T) {
	policies := append(only[*networkingv1.NetworkPolicy](manifests(t)), allInOne[*networkingv1.NetworkPolicy](t, "NetworkPolicy")...)
	for _, d := range deployments(t) {
		var open []int32
		selected := 0
		for _, p := range policies {
			s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil || !s.Matches(labels.Set(d.Spec.Template.Labels)) {
				continue
			}
			selected++
			for _, in := range p.Spec.Ingress {
				for _, port := range in.Ports {
					open = append(open, port.Port.IntVal)
					if port.Port.IntVal != 8000 && len(in.From) == 0 {
						t.Errorf("%s: port %d is open for everybody", d.Name, port.Port.IntVal)
					}
				}
			}
		}
		var want []int32
		for _, port := range d.Spec.Template.Spec.Containers[0].Ports {
			want = append(want, port.ContainerPort)
		}
		if slices.Sort(open); selected != 1 || !slices.Equal(open, want) {
			t.Errorf("%s: %d policies open the ports %v, it has %v", d.Name, selected, open, want)
		}
	}
}
