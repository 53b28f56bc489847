// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrNotSent is the error of a request that never left: the time for it ended, or was sure to end, while it waited for the
// client's rate limit, or the leader lease was not held any more. What it asked for has not been done.
var ErrNotSent = errors.New("not sent")

// A sending notes whether a request under its context was given to the connection.
type sending struct{ begun atomic.Bool }

type sendingKey struct{}

func noteSending(ctx context.Context) (context.Context, *sending) {
	s := new(sending)
	return context.WithValue(ctx, sendingKey{}, s), s
}

func sendingOf(ctx context.Context) *sending {
	s, _ := ctx.Value(sendingKey{}).(*sending)
	return s
}

// orNot adds ErrNotSent to the error of a request that was not sent.
func (s *sending) orNot(err error) error {
	if err == nil || s.begun.Load() {
		return err
	}
	return refusal{ErrNotSent, err}
}
