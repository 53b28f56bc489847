// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"testing"
	"time"

	"podfit.dev/podfit/test/kubetest"
)

// The lease of the webhook, as it is created and as it is renewed.
func TestLease_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	const collection = "/apis/coordination.k8s.io/v1/leases"
	now := kubetest.At(t, "2026-03-01T12:00:00.123456Z")
	f := kubetest.NewFakeAPI(t)
	l := NewLease(clientsOf(f), "kube-system", "vpa-admission-controller")
	spec := func() []byte {
		t.Helper()
		data, err := json.Marshal(map[string]any{"spec": f.Object(collection, "kube-system/vpa-admission-controller")["spec"]})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := l.Renew(t.Context(), "replica-1", now); err != nil {
		t.Fatal(err)
	}
	kubetest.Stored(t, "lease-created.json", spec())
	if err := l.Renew(t.Context(), "replica-2", now); err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "lease-renewed.json", spec())

	f = kubetest.NewFakeAPI(t)
	f.Apply(collection, `{"metadata":{"namespace":"kube-system","name":"vpa-admission-controller"},`+string(golden[1:]))
	l = NewLease(clientsOf(f), "kube-system", "vpa-admission-controller")
	for after, want := range map[time.Duration]bool{59 * time.Second: true, 61 * time.Second: false} {
		if got, err := l.IsFresh(t.Context(), time.Minute, now.Add(after)); got != want || err != nil {
			t.Errorf("after %v: fresh %t, error %v", after, got, err)
		}
	}
}
