// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// countingLease counts its renewals.
type countingLease struct{ renewals atomic.Int64 }

func (l *countingLease) Renew(context.Context, string, time.Time) error {
	l.renewals.Add(1)
	return nil
}

func TestPublishStatus_checkFailsAndRecovers_renewsOnlyWhileItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lease := &countingLease{}
		var problem atomic.Value // of string; "" means that the check succeeds
		problem.Store("")
		var checks atomic.Int64
		check := func(context.Context) error {
			checks.Add(1)
			if text := problem.Load().(string); text != "" {
				return errors.New(text)
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go publishStatus(ctx, slog.New(slog.NewTextHandler(&log, nil)), lease.Renew, 10*time.Second, check)
		expect := func(when string, renewals, failures, recoveries int) {
			t.Helper()
			synctest.Wait()
			if n := int(lease.renewals.Load()); n != renewals {
				t.Errorf("%s: %d renewals, want %d", when, n, renewals)
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

		problem.Store("not registered")
		time.Sleep(10 * time.Second)
		expect("after a failed check", 2, 1, 0)
		before := checks.Load()
		time.Sleep(5 * time.Second)
		expect("while the check fails", 2, 1, 0)
		if got := checks.Load() - before; got != 5 {
			t.Errorf("a failed check was repeated %d times in 5 s, want 5", got)
		}
		problem.Store("certificate expired")
		time.Sleep(time.Second)
		expect("after another error", 2, 2, 0)

		problem.Store("")
		time.Sleep(time.Second)
		expect("after the recovery", 3, 2, 1)
	})
}

func TestPublishStatus_processStopsDuringCheck_logsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lease := &countingLease{}
		ctx, cancel := context.WithCancel(t.Context())
		check := func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		publishStatus(ctx, slog.New(slog.NewTextHandler(&log, nil)), lease.Renew, 10*time.Second, check)
		if n := lease.renewals.Load(); n != 0 || log.Len() > 0 {
			t.Errorf("%d renewals, log %q; want none and no log", n, log.String())
		}
	})
}
