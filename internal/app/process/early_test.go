// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryOr_earlyValues_causeOneCallAfterThePeriod(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration   // of each call
		waits time.Duration   // part of it for which the call waits
		sent  []time.Duration // when early receives a value, after the start
		want  []time.Duration // when calls start
	}{
		"none":                     {want: []time.Duration{0, 60 * time.Second, 120 * time.Second}},
		"after the period":         {sent: []time.Duration{10 * time.Second}, want: []time.Duration{0, 10 * time.Second, 60 * time.Second, 120 * time.Second}},
		"during the period":        {sent: []time.Duration{time.Millisecond}, want: []time.Duration{0, time.Second, 60 * time.Second, 120 * time.Second}},
		"many at once":             {sent: []time.Duration{10 * time.Second, 10 * time.Second, 10500 * time.Millisecond}, want: []time.Duration{0, 10 * time.Second, 11 * time.Second, 60 * time.Second, 120 * time.Second}},
		"after a call of 2s":       {takes: 2 * time.Second, sent: []time.Duration{5 * time.Second}, want: []time.Duration{0, 20 * time.Second, 60 * time.Second, 120 * time.Second}},
		"after a wait of 2s":       {takes: 2 * time.Second, waits: 2 * time.Second, sent: []time.Duration{time.Second}, want: []time.Duration{0, 2 * time.Second, 60 * time.Second, 120 * time.Second}},
		"at the time of the tick":  {sent: []time.Duration{60*time.Second + time.Millisecond}, want: []time.Duration{0, 60 * time.Second, 61 * time.Second, 120 * time.Second}},
		"shortly before the tick":  {takes: time.Second, sent: []time.Duration{59500 * time.Millisecond}, want: []time.Duration{0, 59500 * time.Millisecond, 120 * time.Second}},
		"a call of 30s that waits": {takes: 30 * time.Second, waits: 29 * time.Second, sent: []time.Duration{45 * time.Second}, want: []time.Duration{0, 45 * time.Second, 120 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 121*time.Second)
				defer cancel()
				start := time.Now()
				early := make(chan struct{}, 1)
				for _, at := range c.sent {
					time.AfterFunc(at, func() {
						select {
						case early <- struct{}{}:
						default:
						}
					})
				}
				var got []time.Duration
				EveryOr(ctx, time.Minute, early, time.Second, func(_ context.Context, now time.Time) time.Duration {
					got = append(got, now.Sub(start))
					time.Sleep(c.takes)
					return c.takes - c.waits
				})
				if !slices.Equal(got, c.want) {
					t.Errorf("calls at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A tenant who changes objects all the time causes signals all the time.
func TestEveryOr_continuousSignals_costIsBoundedAndNoTickIsLost(t *testing.T) {
	for _, cost := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const runs = 10 * time.Minute
			ctx, cancel := context.WithTimeout(t.Context(), runs)
			defer cancel()
			early := make(chan struct{})
			go func() {
				for ctx.Err() == nil {
					select {
					case early <- struct{}{}:
					case <-ctx.Done():
					}
				}
			}()
			start := time.Now()
			calls := 0
			last := start
			var longest time.Duration
			EveryOr(ctx, time.Minute, early, time.Second, func(_ context.Context, now time.Time) time.Duration {
				calls++
				longest = max(longest, now.Sub(last))
				last = now
				time.Sleep(cost)
				return cost
			})
			regular := int(runs / time.Minute)
			if used := time.Duration(calls) * cost; used > runs/maxEarlyShare+time.Duration(regular+1)*cost {
				t.Errorf("calls that cost %v: %d calls cost %v in %v", cost, calls, used, runs)
			}
			if most := int(runs / time.Second); calls > most+regular+1 || calls < regular {
				t.Errorf("calls that cost %v: %d calls in %v, want from %d to %d", cost, calls, runs, regular, most+regular+1)
			}
			if longest > time.Minute {
				t.Errorf("calls that cost %v: %v between two calls", cost, longest)
			}
		})
	}
}
