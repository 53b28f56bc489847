// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
