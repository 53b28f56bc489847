// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// shipped returns the objects of deploy/15-webhook-objects.yaml.
func shipped() []runtime.Object {
	return []runtime.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: registration.ConfigurationName, UID: "c"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: registration.SecretName, UID: "s"}},
	}
}

// mayNotCreate makes the API server forbid the creation of objects, as it does with podfit's roles.
func mayNotCreate(client *fake.Clientset) {
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "", nil)
	})
}

func TestServer_emptyObjectsAndNoRightToCreate_fillsThem(t *testing.T) {
	r := runAfter(t, Config{Register: true, Registration: usual}, func(r *running) {
		mayNotCreate(r.client)
		for _, o := range shipped() {
			if err := r.client.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
	})
	eventually(t, "ready", func() bool { return r.Ready() == nil && r.Check(t.Context()) == nil })
	if _, err := r.served(t); err != nil {
		t.Error(err)
	}
	if !r.log.has("Registered the webhook") {
		t.Errorf("the registration is not logged:\n%s", r.log)
	}
}

func TestServer_missingObjectsAndNoRightToCreate_logsTheRemedy(t *testing.T) {
	for name, present := range map[string][]runtime.Object{"secret": shipped()[:1], "webhook configuration": shipped()[1:]} {
		r := runAfter(t, Config{Register: true, Registration: usual}, func(r *running) {
			mayNotCreate(r.client)
			for _, o := range present {
				if err := r.client.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
		})
		eventually(t, "the remedy is logged", func() bool {
			return r.log.has(name+" ") && r.log.has("does not exist and podfit may not create it; create it with kubectl apply -f deploy/15-webhook-objects.yaml")
		})
		if err := r.Ready(); err == nil {
			t.Errorf("the webhook is ready without its %s", name)
		}
		_ = r.stop()
	}
}
