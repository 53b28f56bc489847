// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrNotSent is the error of a request that was not sent: its deadline passed, or would have passed, while it waited for the rate
// limit of the client, or the leader lease was lost. The API server has not performed it.
var ErrNotSent = errors.New("not sent")

// A sendRecord records whether a request with its context was sent, and which delay the response asks for.
type sendRecord struct {
	sent       atomic.Bool
	retryAfter atomic.Int64 // a time.Duration
	pause      *pause       // holds the request back
}

type sendRecordKey struct{}

// recordSending returns a context whose requests are recorded, and are held back by p.
func recordSending(ctx context.Context, p *pause) (context.Context, *sendRecord) {
	s := &sendRecord{pause: p}
	return context.WithValue(ctx, sendRecordKey{}, s), s
}

// sendRecordOf returns the record of a context, or nil.
func sendRecordOf(ctx context.Context) *sendRecord {
	s, _ := ctx.Value(sendRecordKey{}).(*sendRecord)
	return s
}

// classify adds ErrNotSent to the error of a request that was not sent. If the API server is overloaded, the next requests are held back
// for as long as the response asks for. A disruption budget that is not up to date asks for a delay of the same eviction only.
func (s *sendRecord) classify(err error) error {
	if delay := time.Duration(s.retryAfter.Load()); delay > 0 && errors.Is(Refused(err), ErrBusy) {
		s.pause.extend(delay)
	}
	if err == nil || s.sent.Load() {
		return err
	}
	return refusal{ErrNotSent, err}
}
