// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// countingLease counts its renewals.
type countingLease struct{ renewals int }

func (l *countingLease) Renew(context.Context, string, time.Time) error {
	l.renewals++
	return nil
}

func TestPublishStatus_checkFailsAndRecovers_renewsOnlyWhileItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lease := &countingLease{}
		var problem error
		checks := 0
		check := func(context.Context) error {
			checks++
			return problem
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go publishStatus(ctx, slog.New(slog.NewTextHandler(&log, nil)), lease, 10*time.Second, check)
		expect := func(when string, renewals, failures, recoveries int) {
			t.Helper()
			synctest.Wait()
			if lease.renewals != renewals {
				t.Errorf("%s: %d renewals, want %d", when, lease.renewals, renewals)
			}
			if n := strings.Count(log.String(), "Status lease not renewed"); n != failures {
				t.Errorf("%s: %d failures logged, want %d", when, n, failures)
			}
			if n := strings.Count(log.String(), "works again"); n != recoveries {
				t.Errorf("%s: %d recoveries logged, want %d", when, n, recoveries)
			}
		}
		expect("at the start", 1, 0, 0)
		time.Sleep(10 * time.Second)
		expect("after one interval", 2, 0, 0)

		problem = errors.New("not registered")
		time.Sleep(10 * time.Second)
		expect("after a failed check", 2, 1, 0)
		before := checks
		time.Sleep(5 * time.Second)
		expect("while the check fails", 2, 1, 0)
		if got := checks - before; got != 5 {
			t.Errorf("a failed check was repeated %d times in 5 s, want 5", got)
		}
		problem = errors.New("certificate expired")
		time.Sleep(time.Second)
		expect("after another error", 2, 2, 0)

		problem = nil
		time.Sleep(time.Second)
		expect("after the recovery", 3, 2, 1)
	})
}
