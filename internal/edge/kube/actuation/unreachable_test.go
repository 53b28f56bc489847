// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// If the connection breaks after a request was sent, the API server may have executed it. If no connection could be opened, it has not.
func TestPodWriter_brokenConnection_isUnreachableOnlyIfNothingWasSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	closing := kubetest.NewFakeAPI(t)
	closing.Handle(func(w http.ResponseWriter, _ *http.Request, _ kubetest.Request) bool {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = connection.Close()
		}
		return true
	})
	for name, tt := range map[string]struct {
		host string
		want bool
	}{
		"connection refused":                  {closed, true},
		"connection closed after the request": {closing.URL(), false},
	} {
		t.Run(name, func(t *testing.T) {
			clients, err := kube.ClientsFor(&rest.Config{Host: tt.host})
			if err != nil {
				t.Fatal(err)
			}
			a := NewPodWriter(clients)
			p := &cluster.Pod{Key: cluster.Key{Namespace: "a", Name: "b"}, UID: "u"}
			with := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1, 1)}}
			for action, err := range map[string]error{"evict": a.Evict(t.Context(), p), "resize": a.Resize(t.Context(), p, with)} {
				if err == nil || errors.Is(err, kube.ErrUnreachable) != tt.want || errors.Is(err, kube.ErrNotSent) {
					t.Errorf("%s: error %v, unreachable %t, want %t", action, err, errors.Is(err, kube.ErrUnreachable), tt.want)
				}
			}
		})
	}
}
