// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// A switchGate is closed while a switch is on.
type switchGate struct {
	on  *atomic.Bool
	err error
}

func (g switchGate) Closed() error {
	if g.on.Load() {
		return g.err
	}
	return nil
}

// A request that has waited for the rate limit of the client must not be sent after a freeze has begun.
func TestWithGate_gateCloses_requestIsNotSent(t *testing.T) {
	var sent atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}))
	defer s.Close()
	c, err := ClientsFor(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	errFrozen := errors.New("frozen")
	var closed atomic.Bool
	ctx := WithGate(t.Context(), switchGate{&closed, errFrozen})
	evict := func() error {
		return new(Sender).Send(ctx, c.Core.CoreV1().RESTClient().Post().Namespace("shop").Resource("pods").Name("web").SubResource("eviction"))
	}
	if err := evict(); err != nil || sent.Load() != 1 {
		t.Fatalf("error %v, %d requests sent", err, sent.Load())
	}
	closed.Store(true)
	if err := evict(); !errors.Is(err, errFrozen) || !errors.Is(err, ErrNotSent) || sent.Load() != 1 {
		t.Errorf("error %v, %d requests sent", err, sent.Load())
	}
}
