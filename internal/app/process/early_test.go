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

func TestEveryOr_earlyValues_causeOneCallAfterThePause(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration   // of each call
		sent  []time.Duration // when early receives a value, after the start
		want  []time.Duration // when calls start
	}{
		"none":                    {want: []time.Duration{0, 60 * time.Second, 120 * time.Second}},
		"after the pause":         {sent: []time.Duration{10 * time.Second}, want: []time.Duration{0, 10 * time.Second, 60 * time.Second, 120 * time.Second}},
		"during the pause":        {sent: []time.Duration{time.Second}, want: []time.Duration{0, 3 * time.Second, 60 * time.Second, 120 * time.Second}},
		"many at once":            {sent: []time.Duration{10 * time.Second, 10 * time.Second, 11 * time.Second}, want: []time.Duration{0, 10 * time.Second, 13 * time.Second, 60 * time.Second, 120 * time.Second}},
		"after a call of 2s":      {takes: 2 * time.Second, sent: []time.Duration{5 * time.Second}, want: []time.Duration{0, 22 * time.Second, 60 * time.Second, 120 * time.Second}},
		"at the time of the tick": {sent: []time.Duration{60*time.Second + time.Millisecond}, want: []time.Duration{0, 60 * time.Second, 63 * time.Second, 120 * time.Second}},
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
				EveryOr(ctx, time.Minute, early, 3*time.Second, func(_ context.Context, now time.Time) {
					got = append(got, now.Sub(start))
					time.Sleep(c.takes)
				})
				if !slices.Equal(got, c.want) {
					t.Errorf("calls at %v, want %v", got, c.want)
				}
			})
		})
	}
}
