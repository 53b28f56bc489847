// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"
)

// maxEarlyShare is the part of the time that early calls of EveryOr may take: one tenth.
const maxEarlyShare = 10

// EveryOr is Every with early calls: it also calls do when early receives a value, but not sooner after the last call than pause, and
// than maxEarlyShare times its duration. Values that early receives in the meantime cause one call. A nil channel never receives one.
func EveryOr(ctx context.Context, interval time.Duration, early <-chan struct{}, pause time.Duration, do func(context.Context, time.Time)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		began := time.Now()
		do(ctx, began)
		ended := time.Now()
		select {
		case <-t.C: // a tick during the call
		default:
		}
		if !waitForCall(ctx, t.C, early, ended.Add(max(pause, maxEarlyShare*ended.Sub(began)))) {
			return
		}
	}
}

// waitForCall waits for a tick, or for a value of early, which has no effect before the given time. It returns false if ctx ends first.
func waitForCall(ctx context.Context, tick <-chan time.Time, early <-chan struct{}, earliest time.Time) bool {
	paused := time.NewTimer(time.Until(earliest))
	defer paused.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-tick:
		return ctx.Err() == nil
	case <-paused.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-tick:
	case <-early:
	}
	return ctx.Err() == nil
}
