// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
)

// ErrNotSent is the error of a request that was not sent: its deadline passed, or would have passed, while it waited for the rate
// limit of the client, or the leader lease was lost. The API server has not performed it.
var ErrNotSent = errors.New("not sent")

// A Sender sends requests that change objects. It sends each request once; the caller retries.
//
// After a response with status 429 or 503 and Retry-After, it sends no request before that time. A request whose context ends before is not
// sent (ErrNotSent). The zero value is ready to use.
type Sender struct {
	DryRun bool // the API server stores nothing

	pause pause
}

// Send sends a request, without a decoded response. Its error is ErrNotSent if the request was not sent.
func (s *Sender) Send(ctx context.Context, r *rest.Request) error {
	return s.send(ctx, r, rest.Result.Error)
}

func (s *Sender) send(ctx context.Context, r *rest.Request, result func(rest.Result) error) error {
	ctx, sent := recordSending(ctx, &s.pause)
	if s.DryRun {
		r = r.Param("dryRun", metav1.DryRunAll)
	}
	return sent.classify(result(r.MaxRetries(0).Do(ctx)))
}

// Patch sends a patch of an object, in JSON. Its error has the reason of a refusal, too.
func (s *Sender) Patch(ctx context.Context, c rest.Interface, kind types.PatchType, resource string, key cluster.Key, patch any, subresource ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return Refused(s.Send(ctx, c.Patch(kind).Namespace(key.Namespace).Resource(resource).Name(key.Name).SubResource(subresource...).Body(data)))
}

// SendInto is Send, and decodes the response into an object.
func (s *Sender) SendInto(ctx context.Context, r *rest.Request, into runtime.Object) error {
	return s.send(ctx, r, func(r rest.Result) error { return r.Into(into) })
}

// A sendRecord records whether a request with its context was sent, and which delay the response asks for.
type sendRecord struct {
	sent       atomic.Bool
	retryAfter atomic.Int64 // a time.Duration
	pause      *pause       // holds the request back
	throttled  bool         // every response with Retry-After extends the pause
}

type sendRecordKey struct{}

// recordSending returns a context whose requests are recorded, and are held back by p.
func recordSending(ctx context.Context, p *pause) (context.Context, *sendRecord) {
	s := &sendRecord{pause: p}
	return context.WithValue(ctx, sendRecordKey{}, s), s
}

// classify adds ErrNotSent to the error of a request that was not sent. If the API server is overloaded, the next requests are held back
// for as long as the response asks for. A disruption budget that is not up to date asks for a delay of the same eviction only.
func (s *sendRecord) classify(err error) error {
	if delay := time.Duration(s.retryAfter.Load()); delay > 0 && !s.throttled && errors.Is(Refused(err), ErrBusy) {
		s.pause.extend(delay)
	}
	if err == nil || s.sent.Load() {
		return err
	}
	return WithReason(ErrNotSent, err)
}

// Signal sends on a channel with a buffer of one, unless a signal is pending there.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

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
