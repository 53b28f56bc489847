// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"
)

// maxEarlyShare bounds the cost of early calls of EveryOr to one tenth of the time.
const maxEarlyShare = 10

// EveryOr is Every with early calls: it also calls do when early receives a value. Values that early receives before an early call is
// allowed cause one call. do returns its cost, which is the time for which it computed, without the time for which it waited.
//
// An early call starts at least period after the start of the last call, and not before the last call and the pause after it have
// taken maxEarlyShare times the cost of the last call. So any number of values causes at most a tenth of one processor. Early calls do
// not change the times of the other calls.
func EveryOr(ctx context.Context, interval time.Duration, early <-chan struct{}, period time.Duration, do func(context.Context, time.Time) time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		began := time.Now()
		cost := do(ctx, began)
		ended := time.Now()
		select {
		case <-t.C: // a tick during the call
		default:
		}
		earliest := began.Add(period)
		if paused := ended.Add((maxEarlyShare - 1) * cost); paused.After(earliest) {
			earliest = paused
		}
		if !waitForCall(ctx, t.C, early, earliest) {
			return
		}
	}
}

// waitForCall waits for a tick, or for a value of early, which has no effect before the given time. It returns false if ctx ends first.
func waitForCall(ctx context.Context, tick <-chan time.Time, early <-chan struct{}, earliest time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-tick:
		return ctx.Err() == nil
	case <-time.After(time.Until(earliest)):
	}
	select {
	case <-ctx.Done():
		return false
	case <-tick:
	case <-early:
	}
	return ctx.Err() == nil
}
