// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestWhatChangesPodsSharesItsRateLimitWithNobodyWhoTellsOfIt(t *testing.T) {
	cs, err := ClientsFor(&rest.Config{Host: "http://127.0.0.1:1", QPS: 50, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	writes := cs.Core.CoreV1().RESTClient().GetRateLimiter()
	for writes.TryAccept() { // until the burst is used up
		continue
	}
	if cs.Autoscalers.GetRateLimiter().TryAccept() {
		t.Error("autoscalers are written at a rate of their own; together the clients exceed what was allowed")
	}
	for name, limit := range map[string]interface{ TryAccept() bool }{
		"leases": cs.Leases.CoordinationV1().RESTClient().GetRateLimiter(),
		"events": cs.Events.CoreV1().RESTClient().GetRateLimiter(),
	} {
		if !limit.TryAccept() {
			t.Errorf("%s wait behind a burst of writes", name)
		}
	}
}

func TestNegativeRatesAreNotLimited(t *testing.T) {
	cs, err := ClientsFor(&rest.Config{Host: "http://127.0.0.1:1", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if l := cs.Events.CoreV1().RESTClient().GetRateLimiter(); l != nil && !l.TryAccept() {
			t.Fatal("events are limited")
		}
		if l := cs.Core.CoreV1().RESTClient().GetRateLimiter(); l != nil && !l.TryAccept() {
			t.Fatal("requests are limited")
		}
	}
}
