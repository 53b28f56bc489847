// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// An overloadedServer answers the first request with a status and headers, and the others with success. It records when requests arrive.
type overloadedServer struct {
	code       int
	retryAfter string
	body       string

	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func (s *overloadedServer) RoundTrip(q *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.start))
	r := &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: q}
	body := `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	if len(s.at) == 1 {
		r.StatusCode, body = s.code, s.body
		if s.retryAfter != "" {
			r.Header.Set("Retry-After", s.retryAfter)
		}
		if !strings.HasPrefix(body, "{") {
			r.Header.Set("Content-Type", "text/plain")
		}
	}
	r.Body = io.NopCloser(strings.NewReader(body))
	return r, nil
}

func writerOf(t *testing.T, s *overloadedServer, qps float32) *PodWriter {
	t.Helper()
	s.start = time.Now()
	clients, err := kube.ClientsFor(&rest.Config{Host: "http://server", QPS: qps, Burst: 1, Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return NewPodWriter(clients)
}

func TestPodWriter_serverIsOverloaded_nothingIsSentBeforeRetryAfter(t *testing.T) {
	const budget = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"m","details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget"}]}}`
	for name, c := range map[string]struct {
		server *overloadedServer
		want   time.Duration // when the second request arrives
		err    error
	}{
		"429":                    {&overloadedServer{code: 429, retryAfter: "7", body: "Too many requests, please try again later."}, 7 * time.Second, kube.ErrBusy},
		"503":                    {&overloadedServer{code: 503, retryAfter: "20", body: "shutting down"}, 20 * time.Second, kube.ErrBusy},
		"503 with a time":        {&overloadedServer{code: 503, retryAfter: "Sat, 01 Jan 2000 00:00:30 GMT", body: "shutting down"}, 30 * time.Second, kube.ErrBusy},
		"429 without a delay":    {&overloadedServer{code: 429, body: "Too many requests"}, 0, kube.ErrBusy},
		"a disruption budget":    {&overloadedServer{code: 429, retryAfter: "10", body: budget}, 0, kube.ErrBudget},
		"an error of the server": {&overloadedServer{code: 500, retryAfter: "10", body: "no"}, 0, nil},
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
				if at := c.server.at[1]; at != c.want {
					t.Errorf("the second request arrived after %v, want %v", at, c.want)
				}
			})
		})
	}
}

// Requests that wait for the rate limit of the client when the response arrives are held back, too.
func TestPodWriter_serverIsOverloaded_waitingRequestsAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &overloadedServer{code: 429, retryAfter: "30", body: "Too many requests"}
		a := writerOf(t, s, 1)
		var evictions sync.WaitGroup
		for range 5 {
			evictions.Go(func() { _ = a.Evict(t.Context(), podToActOn()) })
		}
		evictions.Wait()
		if len(s.at) != 5 || s.at[1] < 30*time.Second {
			t.Errorf("requests arrived at %v, want one at 0s and the others after 30s", s.at)
		}
	})
}

// longestPause is how long requests are held back at most, whatever Retry-After asks for.
const longestPause = 10 * time.Minute

// A pass does not wait for a server that asks for more time than the pass has.
func TestPodWriter_retryAfterIsLaterThanTheDeadline_isNotSent(t *testing.T) {
	for _, after := range []string{"120", fmt.Sprint(1 << 40)} {
		synctest.Test(t, func(t *testing.T) {
			s := &overloadedServer{code: 503, retryAfter: after, body: "shutting down"}
			a := writerOf(t, s, -1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = a.Evict(ctx, podToActOn())
			if err := a.Evict(ctx, podToActOn()); !errors.Is(err, kube.ErrNotSent) || time.Since(s.start) > time.Second || len(s.at) != 1 {
				t.Errorf("Retry-After %s: error %v after %v, %d requests; want kube.ErrNotSent at once", after, err, time.Since(s.start), len(s.at))
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
		s := &overloadedServer{code: 201, body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`, start: time.Now()}
		clients, err := kube.ClientsFor(&rest.Config{Host: "http://server", QPS: 1, Burst: 1, Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		writing, cancel := context.WithCancel(t.Context())
		var writes sync.WaitGroup
		for range 30 {
			writes.Go(func() { clients.Autoscalers.Put().Resource("verticalpodautoscalers").Name("a").Do(writing) })
			writes.Go(func() { clients.Events.CoreV1().RESTClient().Post().Resource("events").Body([]byte("{}")).Do(writing) })
		}
		synctest.Wait()
		if err := NewPodWriter(clients).Evict(t.Context(), podToActOn()); err != nil || time.Since(s.start) > 0 {
			t.Errorf("the eviction took %v, error %v; want no wait", time.Since(s.start), err)
		}
		cancel()
		writes.Wait()
	})
}
