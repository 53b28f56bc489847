// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxRetryAfter bounds how long requests are held back after a response with Retry-After.
const maxRetryAfter = 10 * time.Minute

// maxThrottle bounds how long a Throttle holds requests back, because the answer may come from a webhook that serves one namespace only.
const maxThrottle = 30 * time.Second

// A pause holds requests back after the API server has answered one of them with status 429 or 503 and Retry-After. It also holds back
// requests that wait for the rate limit of the client at that time.
type pause struct {
	mu    sync.Mutex
	until time.Time
}

// extend holds requests back for d from now on.
func (p *pause) extend(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(min(d, maxRetryAfter)); until.After(p.until) {
		p.until = until
	}
}

func (p *pause) end() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until
}

// wait returns when requests may be sent. It fails at once if ctx ends earlier.
func (p *pause) wait(ctx context.Context) error {
	for {
		until := p.end()
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if end, ends := ctx.Deadline(); ends && end.Before(until) {
			return fmt.Errorf("the API server is overloaded and accepts no request before %s", until.UTC().Format(time.RFC3339))
		}
		if !Sleep(ctx, left) {
			return context.Cause(ctx)
		}
	}
}

// retryAfterOf returns the delay that a response with status 429 or 503 asks for, or 0.
func retryAfterOf(r *http.Response) time.Duration {
	if r == nil || r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := r.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return boundedSeconds(seconds)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

func boundedSeconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), int(maxRetryAfter/time.Second))) * time.Second
}

// RetryAfter returns the delay after which the API server allows another attempt at a refused action, or 0.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return boundedSeconds(seconds)
}

// A Throttle holds requests back after the API server has answered one of them with status 429 or 503 and Retry-After, until that time, or for
// 30 s. The refused request is repeated by the client. A request whose context ends before that time is not sent (ErrNotSent).
type Throttle struct{ pause pause }

// Request returns the context of a request, and a function that adds ErrNotSent to the error of the request if it was not sent.
func (t *Throttle) Request(ctx context.Context) (of context.Context, classify func(error) error) {
	ctx, record := recordSending(ctx, &t.pause)
	record.throttled = true
	return ctx, record.classify
}
