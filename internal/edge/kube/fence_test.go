// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/kubetest"
)

func TestFence_notExtended_endsItsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFence()
		defer f.Close()
		if f.isOpen() {
			t.Error("the fence is open before it was extended")
		}
		start := time.Now()
		f.Extend(start.Add(10 * time.Second))
		ctx, cancel := f.Guard(t.Context())
		defer cancel()
		detached := context.WithoutCancel(ctx)
		time.Sleep(8 * time.Second)
		f.Extend(start.Add(20 * time.Second))
		f.Extend(start.Add(15 * time.Second)) // earlier than the time before: no effect
		<-ctx.Done()
		if d := time.Since(start); d != 20*time.Second || !errors.Is(context.Cause(ctx), ErrFenced) {
			t.Errorf("ended after %s because of %v", d, context.Cause(ctx))
		}
		f.Extend(time.Now().Add(time.Hour))
		if f.isOpen() || FenceOf(detached) != f {
			t.Error("a closed fence was opened again, or a derived context does not have the fence")
		}
	})
}

func TestFence_lateExtension_closes(t *testing.T) {
	f := NewFence()
	defer f.Close()
	f.Extend(time.Now().Add(-time.Second)) // the response to the renewal came after the lease had expired
	f.Extend(time.Now().Add(time.Hour))
	if f.isOpen() {
		t.Error("the fence is open")
	}
}

// In a process that was paused, timers fire late. So the client itself must reject requests.
func TestClients_closedFence_sendNothing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	clients := clientsOf(f)
	fence := NewFence()
	defer fence.Close()
	guarded, cancel := fence.Guard(t.Context())
	defer cancel()
	evict := func() error {
		return clients.Core.CoreV1().Pods("shop").Delete(guarded, "web-1-0", metav1.DeleteOptions{})
	}
	if err := evict(); !errors.Is(err, ErrFenced) {
		t.Errorf("with a closed fence: %v", err)
	}
	if err := clients.Core.CoreV1().Pods("shop").Delete(context.WithoutCancel(guarded), "web-1-0", metav1.DeleteOptions{}); !errors.Is(err, ErrFenced) {
		t.Errorf("under a context that outlives the guarded one: %v", err)
	}
	if sent := len(f.Requests()); sent != 0 {
		t.Errorf("%d requests were sent", sent)
	}
	fence.Extend(time.Now().Add(time.Hour))
	if err := evict(); err != nil {
		t.Errorf("with an open fence: %v", err)
	}
}
