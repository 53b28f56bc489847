// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrFenced is the error of a request that was not sent because another process may hold the leader lease.
var ErrFenced = errors.New("the leader lease is not held any more")

// A Fence ends the work of a leader before another process can hold the lease. It is closed at first. Extend opens it until a
// given time. When that time passes without another Extend, it is closed permanently.
//
// Contexts of Guard end when the fence closes. In addition, Clients send no request with such a context, or with one derived from
// it, while the fence is closed, even if the process was paused and its timers are late.
type Fence struct {
	closed context.Context //nolint:containedctx // it signals the end of the fence; it is the context of no request
	end    context.CancelFunc

	mu    sync.Mutex
	until time.Time // zero: not open yet
	timer *time.Timer
}

type fenceKey struct{}

// NewFence returns a fence that is not open yet. Close ends its timer.
func NewFence() *Fence {
	f := new(Fence)
	f.closed, f.end = context.WithCancel(context.Background())
	return f
}

// Extend keeps the fence open until a time. It has no effect on a fence that has closed.
func (f *Fence) Extend(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.closed.Err() != nil || !until.After(f.until):
		return
	case !until.After(now), !f.until.IsZero() && !now.Before(f.until):
		f.end()
		return
	}
	f.until = until
	if f.timer == nil {
		f.timer = time.AfterFunc(until.Sub(now), f.expire)
		return
	}
	f.timer.Reset(until.Sub(now))
}

// expire closes the fence unless it was extended meanwhile.
func (f *Fence) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.until) {
		f.end()
	}
}

// Close closes the fence permanently.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.end()
}

// isOpen reports whether the fence is open now. It also checks the wall clock, because the monotonic clock stops while the machine
// is suspended.
func (f *Fence) isOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return f.closed.Err() == nil && now.Before(f.until) && now.Round(0).Before(f.until.Round(0))
}

// Guard returns a context that ends when the fence closes.
func (f *Fence) Guard(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, fenceKey{}, f))
	stop := context.AfterFunc(f.closed, func() { cancel(ErrFenced) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// FenceOf returns the fence that guards a context, or nil.
func FenceOf(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}

// A Gate decides whether requests may be sent now.
type Gate interface {
	// Closed returns the error of requests that may not be sent now, or nil.
	Closed() error
}

type gateKey struct{}

// WithGate returns a context whose requests are sent only if the gate is not closed. The gate is checked when a request is sent, after
// its wait for the rate limit of the client. Otherwise the request has the error of the gate.
func WithGate(parent context.Context, gate Gate) context.Context {
	return context.WithValue(parent, gateKey{}, gate)
}

// fenced is a round tripper that rejects requests whose context has a closed fence or a closed gate, and holds requests back while the
// API server asks for that.
type fenced struct{ next http.RoundTripper }

func (t fenced) RoundTrip(q *http.Request) (*http.Response, error) {
	s, _ := q.Context().Value(sendRecordKey{}).(*sendRecord)
	if s != nil {
		if err := s.pause.wait(q.Context()); err != nil {
			return reject(q, err)
		}
	}
	if f := FenceOf(q.Context()); f != nil && !f.isOpen() {
		return reject(q, ErrFenced)
	}
	if gate, ok := q.Context().Value(gateKey{}).(Gate); ok {
		if err := gate.Closed(); err != nil {
			return reject(q, err)
		}
	}
	if s == nil {
		return t.next.RoundTrip(q)
	}
	s.sent.Store(true)
	response, err := t.next.RoundTrip(q)
	delay := retryAfterOf(response)
	s.retryAfter.Store(int64(delay))
	if s.throttled && delay > 0 {
		s.pause.extend(min(delay, maxThrottle))
	}
	return response, err
}

// reject ends a request that is not sent.
func reject(q *http.Request, err error) (*http.Response, error) {
	if q.Body != nil {
		_ = q.Body.Close()
	}
	return nil, fmt.Errorf("%s %s: %w", q.Method, q.URL.Path, err)
}

// WrappedRoundTripper lets client-go find the connections behind this round tripper.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }
