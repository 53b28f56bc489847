// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"sync/atomic"
	"testing"

	"podfit.dev/podfit/test/kubetest"
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
	f := kubetest.NewLocalAPI(t)
	c, err := ClientsFor(kubetest.LocalConfig(f))
	if err != nil {
		t.Fatal(err)
	}
	errFrozen := errors.New("frozen")
	var closed atomic.Bool
	ctx := WithGate(t.Context(), switchGate{&closed, errFrozen})
	evict := func() error {
		return new(Sender).Send(ctx, c.Core.CoreV1().RESTClient().Post().Namespace("shop").Resource("pods").Name("web").SubResource("eviction"))
	}
	if err := evict(); err != nil || len(f.Log()) != 1 {
		t.Fatalf("error %v, %d requests sent", err, len(f.Log()))
	}
	closed.Store(true)
	if err := evict(); !errors.Is(err, errFrozen) || !errors.Is(err, ErrNotSent) || len(f.Log()) != 1 {
		t.Errorf("error %v, %d requests sent", err, len(f.Log()))
	}
}
