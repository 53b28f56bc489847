// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const provisioningRequests = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"

// opened returns the number of watches of ProvisioningRequests.
func opened(f *kubetest.FakeAPI) int { return f.Counts()["WATCH "+provisioningRequests] }

// startRequests starts a World with a fake API server, in a bubble.
func startRequests(t *testing.T) (*World, *kubetest.FakeAPI) {
	t.Helper()
	f := kubetest.NewLocalAPI(t)
	clients, err := kube.ClientsFor(kubetest.LocalConfig(f))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(clients, Options{Nodes: true})
	ctx, cancel := context.WithCancel(t.Context())
	w.Start(ctx)
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	synctest.Wait()
	for len(w.Urgent()) > 0 {
		<-w.Urgent()
	}
	return w, f
}

func signaled(w *World) bool {
	synctest.Wait()
	select {
	case <-w.Urgent():
		return true
	default:
		return false
	}
}

func TestRequestWatch_updaterWaits_changesAreSignaledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := startRequests(t)
		if _, watched := w.RequestChanges(); watched || opened(f) != 0 {
			t.Errorf("%d watches although the updater waits for no request", opened(f))
		}
		w.AwaitChanges(Waits{Requests: true})
		if before, watched := w.RequestChanges(); !signaled(w) {
			t.Errorf("the new watch is not signaled: %d changes, watched %v", before, watched)
		}
		before, watched := w.RequestChanges()
		f.Apply(provisioningRequests, `{"metadata":{"namespace":"shop","name":"r","labels":{"podfit.dev/placeholder":"true"}}}`)
		if !signaled(w) {
			t.Error("a change is not signaled")
		}
		if after, _ := w.RequestChanges(); !watched || after != before+1 {
			t.Errorf("%d changes after %d, watched %v", after, before, watched)
		}
		w.AwaitChanges(Waits{})
		synctest.Wait()
		if _, watched := w.RequestChanges(); watched {
			t.Error("the watch is open although the updater waits no more")
		}
		time.Sleep(time.Hour)
		if opened(f) != 1 {
			t.Errorf("%d watches, want one", opened(f))
		}
	})
}

// While requests cannot be watched, the updater reads them. The watch is tried again with a back-off, and causes no passes.
func TestRequestWatch_isRefused_isTriedRarelyAndNotSignaled(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			w, f := startRequests(t)
			f.Reply("WATCH "+provisioningRequests, code, "no")
			for range 360 { // each pass waits for a request, for an hour
				w.AwaitChanges(Waits{Requests: true})
				time.Sleep(10 * time.Second)
			}
			if n := opened(f); n < 5 || n > 25 || signaled(w) {
				t.Errorf("%d: %d attempts in an hour", code, n)
			}
			f.ForgetReply("WATCH " + provisioningRequests)
			for range 60 {
				w.AwaitChanges(Waits{Requests: true})
				time.Sleep(10 * time.Second)
			}
			if _, watched := w.RequestChanges(); !watched {
				t.Errorf("%d: not watched after the API server has recovered", code)
			}
		})
	}
}

// A watch that the API server ends is opened again, and what changed in between is read.
func TestRequestWatch_serverEndsIt_isOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := startRequests(t)
		w.AwaitChanges(Waits{Requests: true})
		synctest.Wait()
		before, _ := w.RequestChanges()
		for range 60 {
			w.AwaitChanges(Waits{Requests: true})
			time.Sleep(10 * time.Second)
		}
		after, watched := w.RequestChanges()
		if n := opened(f); n < 2 || n > 3 || !watched || after == before {
			t.Errorf("%d watches in ten minutes, %d changes after %d", n, after, before)
		}
	})
}
