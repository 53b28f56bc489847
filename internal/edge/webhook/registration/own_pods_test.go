// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var failing = Config{Service: serviceKey, Timeout: 30, Fail: true}

// A test in localcluster/internal/matchcondition contains the same expression and evaluates it with the code of the API server.
const ownPods = `!(request.namespace == "kube-system" && request.resource.group == "" && request.resource.resource == "pods" && ` +
	`has(object.metadata.labels) && (` +
	`"app" in object.metadata.labels && object.metadata.labels["app"] in ["vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"] || ` +
	`"app.kubernetes.io/name" in object.metadata.labels && object.metadata.labels["app.kubernetes.io/name"] in ["vertical-pod-autoscaler", "podfit"]))`

func TestRegistrar_failurePolicyFail_excludesOwnPods(t *testing.T) {
	client := fake.NewClientset()
	ensure(t, client, failing, "CA")
	w := registered(t, client).Webhooks[0]
	if len(w.MatchConditions) != 1 || w.MatchConditions[0].Expression != ownPods {
		t.Errorf("match conditions %+v", w.MatchConditions)
	}
	if did := ensure(t, client, failing, "CA"); did != Unchanged {
		t.Errorf("second call: change %v", did)
	}

	c := registered(t, client)
	others := admissionregistrationv1.MatchCondition{Name: "no-jobs", Expression: "true"}
	c.Webhooks[0].MatchConditions = append([]admissionregistrationv1.MatchCondition{others}, c.Webhooks[0].MatchConditions...)
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ensure(t, client, usual, "CA")
	if got := registered(t, client).Webhooks[0].MatchConditions; len(got) != 1 || got[0] != others {
		t.Errorf("with the policy Ignore: match conditions %+v", got)
	}
}

func TestRegistrar_serverWithoutMatchConditions_isPatchedOnce(t *testing.T) {
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
	r := NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), failing)
	if did, err := r.Ensure(t.Context(), []byte("CA")); err != nil || did != Created {
		t.Fatalf("change %v, %v", did, err)
	}
	if did, err := r.Ensure(t.Context(), []byte("CA")); err != nil || did != Unchanged {
		t.Errorf("second call: change %v, %v", did, err)
	}
}

func TestRegistrar_configurationWasEmpty_isEmptyAfterRemove(t *testing.T) {
	client := fake.NewClientset(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName, UID: "c"}})
	r := NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), Config{URL: "https://10.0.0.1:8443", Timeout: 10})
	if did, err := r.Ensure(t.Context(), []byte("CA")); err != nil || did != Created {
		t.Fatalf("change %v, %v", did, err)
	}
	if did, err := r.Remove(t.Context()); err != nil || did != Emptied {
		t.Errorf("change %v, %v", did, err)
	}
	if n := len(registered(t, client).Webhooks); n != 0 {
		t.Errorf("%d webhooks are left, want 0", n)
	}
}
