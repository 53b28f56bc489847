// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrNotSent is the error of a request that was not sent: its deadline passed, or would have passed, while it waited for the rate
// limit of the client, or the leader lease was lost. The API server has not performed it.
var ErrNotSent = errors.New("not sent")

// A sendRecord records whether a request with its context was sent.
type sendRecord struct{ sent atomic.Bool }

type sendRecordKey struct{}

// recordSending returns a context whose requests are recorded.
func recordSending(ctx context.Context) (context.Context, *sendRecord) {
	s := new(sendRecord)
	return context.WithValue(ctx, sendRecordKey{}, s), s
}

// sendRecordOf returns the record of a context, or nil.
func sendRecordOf(ctx context.Context) *sendRecord {
	s, _ := ctx.Value(sendRecordKey{}).(*sendRecord)
	return s
}

// classify adds ErrNotSent to the error of a request that was not sent.
func (s *sendRecord) classify(err error) error {
	if err == nil || s.sent.Load() {
		return err
	}
	return refusal{ErrNotSent, err}
}
