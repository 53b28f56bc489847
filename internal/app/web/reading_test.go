// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A caller waits only if no value may be shown or nobody has looked for long, and not if the attempt before has just failed.
func TestReading_ageOfTheValue_decidesWhetherACallerWaits(t *testing.T) {
	fresh := freshness{age: time.Minute, wait: 3 * time.Minute, stale: 5 * time.Minute, patience: 2 * time.Second}
	for name, c := range map[string]struct {
		first error         // of the first attempt
		pause time.Duration // from the end of the first attempt
		waits bool
		ok    bool
	}{
		"young value":             {nil, time.Minute - 1, false, true},
		"old value":               {nil, fresh.wait - 1, false, true},
		"nobody looked for long":  {nil, fresh.wait, true, true},
		"stale value":             {nil, fresh.stale, true, false},
		"attempt has just failed": {errors.New("x"), fresh.wait - 1, false, false},
		"attempt failed long ago": {errors.New("x"), fresh.wait, true, false},
		"attempt has just ended":  {errors.New("x"), 0, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &reading[int]{attempts: attempts{log: slog.New(slog.DiscardHandler)}}
			_, _, _ = r.get(t.Context(), fresh, func(context.Context) (int, error) { return 1, c.first })
			synctest.Wait()
			time.Sleep(c.pause)
			began := time.Now()
			_, ok, _ := r.get(t.Context(), fresh, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
			want := time.Duration(0)
			if c.waits {
				want = fresh.patience
			}
			if took := time.Since(began); took != want || ok != c.ok {
				t.Errorf("%s: waited %v, want %v; a value is shown: %t, want %t", name, took, want, ok, c.ok)
			}
			time.Sleep(readTimeout)
		})
	}
}

func TestReading_firstValue_isAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reading[int]{attempts: attempts{log: slog.New(slog.DiscardHandler)}}
		v, ok, err := r.get(t.Context(), freshUsage, func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 7, nil
		})
		if v != 7 || !ok || err != nil {
			t.Errorf("got %d, %t, %v", v, ok, err)
		}
	})
}
