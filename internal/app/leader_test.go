// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// Upstream's processes end when the API server is away for longer than they may lead.
func TestALostLeaseIsStoodForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		var away atomic.Bool
		api.PrependReactor("update", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		terms := 0
		err := lead(ctx, slog.New(slog.DiscardHandler), recommenderGiven(t, "--leader-elect").Election, api, func(leading context.Context) error {
			if terms++; terms == 2 {
				cancel()
				return nil
			}
			away.Store(true)
			time.AfterFunc(30*time.Second, func() { away.Store(false) })
			<-leading.Done()
			if ctx.Err() != nil || !away.Load() {
				t.Error("it worked without a lease")
			}
			return nil
		})
		if err != nil || terms != 2 {
			t.Errorf("led %d times: %v", terms, err)
		}
	})
}
