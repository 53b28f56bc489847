// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	firstPause  = time.Second
	longPause   = 30 * time.Second
	maxFailures = 12              // in a row, of queries that Prometheus did not reject as too large
	maxFailing  = 5 * time.Minute // from the first of them
)

// A gate limits how many queries run at a time, and delays them after failures.
//
//	         failure                 maxFailures in a row, or maxFailing without a success
//	normal ───────────▶ one at a time ────────────────────────────────▶ closed
//	                      │      ▲ a pause before the next query, doubled by each failure in a row
//	                      └──────┘
type gate struct {
	slots chan struct{} // a value per running query, and another one when one query runs at a time

	mu         sync.Mutex // guards the fields below
	single     bool       // one query at a time, for the rest of the survey
	pauses     int        // failures in a row
	failures   int        // of those, without queries that were too large
	failingFor time.Time
	earliest   time.Time // start of the next query
	closed     error
}

// enter waits until a query may start. leave must follow, unless there is an error.
func (g *gate) enter(ctx context.Context, waits func(until time.Time)) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case g.slots <- struct{}{}:
	}
	for {
		g.mu.Lock()
		err := cmp.Or(g.closed, ctx.Err())
		earliest := g.earliest
		g.mu.Unlock()
		pause := time.Until(earliest)
		if err != nil {
			<-g.slots
			return err
		}
		if pause <= 0 {
			return nil
		}
		waits(earliest)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// leave records the result of a query.
func (g *gate) leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	keeps := false
	switch failed, _ := err.(*Error); { //nolint:errorlint // query returns it unwrapped
	case err == nil:
		g.pauses = 0
		g.failures = 0
	case failed == nil: // the end of the context
	case !failed.Cause.smallerHelps():
		g.closed = cmp.Or(g.closed, err)
	default:
		keeps = !g.single && cap(g.slots) > 1
		g.single = true
		pause := min(firstPause<<min(g.pauses, 10), longPause)
		g.pauses++
		g.earliest = now.Add(max(pause, failed.retryAfter))
		if failed.Cause == TooLarge {
			break
		}
		if g.failures == 0 {
			g.failingFor = now
		}
		g.failures++
		if g.failures >= maxFailures || now.Sub(g.failingFor) > maxFailing {
			given := *failed
			given.Cause, given.Detail, given.Err = GivenUp, "the last one: "+failed.Cause.String()+" "+failed.Detail, err
			g.closed = cmp.Or[error](g.closed, &given)
		}
	}
	if !keeps {
		<-g.slots
	}
}

// err returns why no query can start any more.
func (g *gate) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}
