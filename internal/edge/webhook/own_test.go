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
)

var failing = Registration{Service: serviceKey, Timeout: 30, Fail: true}

// localcluster/internal/matchcondition has the same expression, and evaluates it as the API server does.
const ownPods = `!(request.namespace == "kube-system" && request.resource.group == "" && request.resource.resource == "pods" && ` +
	`has(object.metadata.labels) && (` +
	`"app" in object.metadata.labels && object.metadata.labels["app"] in ["vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"] || ` +
	`"app.kubernetes.io/name" in object.metadata.labels && object.metadata.labels["app.kubernetes.io/name"] in ["vertical-pod-autoscaler", "podfit"]))`

func TestRegistrar_failurePolicyFail_exceptsOwnPods(t *testing.T) {
	client := fake.NewClientset()
	assert(t, client, failing, "CA")
	w := registered(t, client).Webhooks[0]
	if len(w.MatchConditions) != 1 || w.MatchConditions[0].Expression != ownPods {
		t.Errorf("match conditions %+v", w.MatchConditions)
	}
	if did := assert(t, client, failing, "CA"); did != unchanged {
		t.Errorf("once more it did %v", did)
	}

	c := registered(t, client)
	others := admissionregistrationv1.MatchCondition{Name: "no-jobs", Expression: "true"}
	c.Webhooks[0].MatchConditions = append([]admissionregistrationv1.MatchCondition{others}, c.Webhooks[0].MatchConditions...)
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	assert(t, client, usual, "CA")
	if got := registered(t, client).Webhooks[0].MatchConditions; len(got) != 1 || got[0] != others {
		t.Errorf("with the policy Ignore: match conditions %+v", got)
	}
}

func TestRegistrar_serverWithoutMatchConditions_isNotAskedAgain(t *testing.T) {
	client := fake.NewClientset()
	drop := func(o *admissionregistrationv1.MutatingWebhookConfiguration) {
		for i := range o.Webhooks {
			o.Webhooks[i].MatchConditions = nil
		}
	}
	client.PrependReactor("create", "mutatingwebhookconfigurations", func(a clienttesting.Action) (bool, runtime.Object, error) {
		drop(a.(clienttesting.CreateAction).GetObject().(*admissionregistrationv1.MutatingWebhookConfiguration))
		return false, nil, nil
	})
	r := newRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), failing)
	if did, err := r.assert(t.Context(), []byte("CA")); err != nil || did != created {
		t.Fatalf("it did %v: %v", did, err)
	}
	if did, err := r.assert(t.Context(), []byte("CA")); err != nil || did != unchanged {
		t.Errorf("at the next look it did %v: %v", did, err)
	}
}

// shipped are the objects of deploy/15-webhook-objects.yaml.
func shipped() []runtime.Object {
	return []runtime.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName, UID: "c"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: SecretName, UID: "s"}},
	}
}

// mayNotCreate makes the API server refuse what podfit's roles do not allow.
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
		t.Errorf("the log does not say that it is registered:\n%s", r.log)
	}
}

func TestServer_missingObjectsAndNoRightToCreate_saysWhatToDo(t *testing.T) {
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
			return r.log.has(name+" ") && r.log.has("does not exist and may not be created: kubectl apply -f deploy/15-webhook-objects.yaml")
		})
		if err := r.Ready(); err == nil {
			t.Errorf("without its %s the webhook is ready", name)
		}
		_ = r.stop()
	}
}

func TestRegistrar_configurationFoundEmpty_isLeftEmpty(t *testing.T) {
	client := fake.NewClientset(shipped()...)
	r := newRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), Registration{URL: "https://10.0.0.1:8443", Timeout: 10})
	if did, err := r.assert(t.Context(), []byte("CA")); err != nil || did != created {
		t.Fatalf("it did %v: %v", did, err)
	}
	if did, err := r.withdraw(t.Context()); err != nil || did != withdrawn {
		t.Errorf("it did %v: %v", did, err)
	}
	if n := len(registered(t, client).Webhooks); n != 0 {
		t.Errorf("%d webhooks are left for an address where nobody answers", n)
	}
}
