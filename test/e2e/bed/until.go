// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience multiplies the time that tests wait for a condition. A wait ends when the condition holds, so only a test that fails waits for so long.
const patience = 4

// WithPatience returns a context whose deadline is a multiple of the time that a wait takes at most on an idle machine, because other tests may
// keep all CPUs busy.
func WithPatience(ctx context.Context, idle time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience*idle)
}

// Until calls check once per interval until it returns nil. If ctx ends first, the error contains the last error of check.
func Until(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // an error caused by the end of ctx would hide the last result
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(last, ctx.Err()) {
				return last
			}
			return fmt.Errorf("%w; last seen: %w", ctx.Err(), last)
		case <-t.C:
		}
	}
}
