// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// A placeholder pod, a ProvisioningRequest and its PodTemplate belong to podfit by their label, and to a pod by the UID in their annotation.
func TestCapacityRequests_storedObjects_areReadAndWrittenTheSame(t *testing.T) {
	f, q, p := provisioningShop(t)
	if err := q.Create(t.Context(), p, cluster.Amounts(2500, 1<<30)); err != nil {
		t.Fatal(err)
	}
	template := kubetest.Stored(t, "podtemplate.json", []byte(f.Body("POST "+shopTemplates)))
	request := kubetest.Stored(t, "provisioningrequest.json", []byte(f.Body("POST "+shopRequests)))
	owner, err := q.template.owner(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(q.template.build(owner, cluster.Amounts(2500, 1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	pod := kubetest.Stored(t, "placeholder.json", written)

	next := kubetest.NewFakeAPI(t)
	next.Apply(templates, string(template))
	next.Apply(requests, string(request))
	next.Apply(requests, `{"metadata":{"namespace":"shop","name":"of-others","labels":{"podfit.dev/placeholder":"true"},"annotations":{"podfit.dev/placeholder-for-uid":"x"}},"spec":{"podSets":7}}`)
	read := NewProvisioningRequests(clientsOf(next), ProvisioningClass, "pause").states(t)
	if len(read) != 1 || read[0] != "0 cpu=2500m memory=1Gi " {
		t.Errorf("read as %q", read)
	}
	var o corev1.Pod
	if err := json.Unmarshal(pod, &o); err != nil {
		t.Fatal(err)
	}
	if !projection.IsPlaceholder(&o) || o.Annotations[projection.PlaceholderUID] != p.UID || o.Name != cluster.PlaceholderOf(p).Name {
		t.Errorf("read as %+v", o.ObjectMeta)
	}
}
