// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"log/slog"
	"os"
	"time"
)

const (
	minRenewTimeout    = 5 * time.Second // of one check and renewal
	statusRetryPeriod  = time.Second     // after a failed check or renewal
	defaultLeaseHolder = "podfit"        // if the host has no name
)

// statusLease is the lease that shows updaters that the webhook works.
type statusLease interface {
	Renew(ctx context.Context, holder string, now time.Time) error
}

// publishStatus renews the status lease at each interval in which check returns nil, until ctx ends.
func publishStatus(ctx context.Context, log *slog.Logger, lease statusLease, interval time.Duration, check func(context.Context) error) {
	holder, err := os.Hostname()
	if err != nil {
		holder = defaultLeaseHolder
	}
	problem := "" // the last error, so that it is logged once
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = interval
		err := renewStatus(ctx, lease, holder, max(interval, minRenewTimeout), check)
		if err == nil {
			if problem != "" {
				log.Info("The webhook works again; its status lease is renewed")
			}
			problem = ""
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		wait = min(interval, statusRetryPeriod)
		if err.Error() != problem {
			log.Warn("Status lease not renewed; the updater does not change pods", slog.Any("error", err))
			problem = err.Error()
		}
	}
}

func renewStatus(ctx context.Context, lease statusLease, holder string, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := check(ctx); err != nil {
		return err
	}
	return lease.Renew(ctx, holder, time.Now())
}
