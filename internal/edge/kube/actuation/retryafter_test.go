// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func limitedClients(t *testing.T, h http.Handler, qps float32) *kube.Clients {
	t.Helper()
	config := kubetest.LocalConfig(h)
	config.QPS = qps
	config.Burst = 1
	clients, err := kube.ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func writerOf(t *testing.T, s *kubetest.Overloaded, qps float32) *PodWriter {
	t.Helper()
	s.Start = time.Now()
	return NewPodWriter(limitedClients(t, s, qps))
}

func TestPodWriter_serverIsOverloaded_nothingIsSentBeforeRetryAfter(t *testing.T) {
	const budget = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"m","details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget"}]}}`
	for name, c := range map[string]struct {
		server *kubetest.Overloaded
		want   time.Duration // when the second request arrives
		err    error
	}{
		"429":                    {&kubetest.Overloaded{Code: 429, RetryAfter: "7", Body: "Too many requests, please try again later."}, 7 * time.Second, kube.ErrBusy},
		"503":                    {&kubetest.Overloaded{Code: 503, RetryAfter: "20", Body: "shutting down"}, 20 * time.Second, kube.ErrBusy},
		"503 with a time":        {&kubetest.Overloaded{Code: 503, RetryAfter: "Sat, 01 Jan 2000 00:00:30 GMT", Body: "shutting down"}, 30 * time.Second, kube.ErrBusy},
		"429 without a delay":    {&kubetest.Overloaded{Code: 429, Body: "Too many requests"}, 0, kube.ErrBusy},
		"a disruption budget":    {&kubetest.Overloaded{Code: 429, RetryAfter: "10", Body: budget}, 0, kube.ErrBudget},
		"an error of the server": {&kubetest.Overloaded{Code: 500, RetryAfter: "10", Body: "no"}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := writerOf(t, c.server, -1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := a.Evict(ctx, podToActOn())
				if err == nil || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("got error %v, want %v", err, c.err)
				}
				if err := a.Resize(ctx, podToActOn(), []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1, 1)}}); err != nil {
					t.Error(err)
				}
				if at := c.server.Writes()[1]; at != c.want {
					t.Errorf("the second request arrived after %v, want %v", at, c.want)
				}
			})
		})
	}
}

// Requests that wait for the rate limit of the client when the response arrives are held back, too.
func TestPodWriter_serverIsOverloaded_waitingRequestsAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &kubetest.Overloaded{Code: 429, RetryAfter: "30", Body: "Too many requests"}
		a := writerOf(t, s, 1)
		var evictions sync.WaitGroup
		for range 5 {
			evictions.Go(func() { _ = a.Evict(t.Context(), podToActOn()) })
		}
		evictions.Wait()
		if at := s.Writes(); len(at) != 5 || at[1] < 30*time.Second {
			t.Errorf("requests arrived at %v, want one at 0s and the others after 30s", at)
		}
	})
}

// longestPause is how long requests are held back at most, whatever Retry-After asks for.
const longestPause = 10 * time.Minute

// A pass does not wait for a server that asks for more time than the pass has.
func TestPodWriter_retryAfterIsLaterThanTheDeadline_isNotSent(t *testing.T) {
	for _, after := range []string{"120", fmt.Sprint(1 << 40)} {
		synctest.Test(t, func(t *testing.T) {
			s := &kubetest.Overloaded{Code: 503, RetryAfter: after, Body: "shutting down"}
			a := writerOf(t, s, -1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = a.Evict(ctx, podToActOn())
			if err := a.Evict(ctx, podToActOn()); !errors.Is(err, kube.ErrNotSent) || time.Since(s.Start) > time.Second || len(s.Writes()) != 1 {
				t.Errorf("Retry-After %s: error %v after %v, %d requests; want kube.ErrNotSent at once", after, err, time.Since(s.Start), len(s.Writes()))
			}
			time.Sleep(longestPause)
			if err := a.Evict(t.Context(), podToActOn()); err != nil {
				t.Errorf("Retry-After %s: error %v after %v, want none", after, err, longestPause)
			}
		})
	}
}

// Writes of statuses have their own rate limit, so that changes of pods do not wait for them.
func TestClients_statusWritesUseUpTheirLimit_evictionDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clients := limitedClients(t, http.HandlerFunc(kubetest.Accepts), 1)
		writing, cancel := context.WithCancel(t.Context())
		var writes sync.WaitGroup
		for range 30 {
			writes.Go(func() { clients.Autoscalers.Put().Resource("verticalpodautoscalers").Name("a").Do(writing) })
			writes.Go(func() { clients.Events.CoreV1().RESTClient().Post().Resource("events").Body([]byte("{}")).Do(writing) })
		}
		synctest.Wait()
		if err := NewPodWriter(clients).Evict(t.Context(), podToActOn()); err != nil || time.Since(began) > 0 {
			t.Errorf("the eviction took %v, error %v; want no wait", time.Since(began), err)
		}
		cancel()
		writes.Wait()
	})
}
