// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import "context"

// A Throttle holds requests back after the API server has answered one of them with status 429 or 503 and Retry-After, until that time. The
// refused request is repeated by the client. A request whose context ends before that time is not sent (ErrNotSent).
type Throttle struct{ pause pause }

// Request returns the context of a request.
func (t *Throttle) Request(ctx context.Context) (context.Context, Sending) {
	ctx, record := recordSending(ctx, &t.pause)
	record.throttled = true
	return ctx, Sending{record}
}

// A Sending is a request that a Throttle may hold back.
type Sending struct{ record *sendRecord }

// Ended returns the error of the request, which is ErrNotSent if it was not sent.
func (s Sending) Ended(err error) error { return s.record.classify(err) }
