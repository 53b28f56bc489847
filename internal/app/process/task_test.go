// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestTask_callEndsOrPanics_hasItsOutcome(t *testing.T) {
	refused := errors.New("403")
	for name, c := range map[string]struct {
		do   func() (int, error)
		want int
		err  error
	}{
		"succeeds": {func() (int, error) { time.Sleep(time.Minute); return 3, nil }, 3, nil},
		"fails":    {func() (int, error) { time.Sleep(time.Minute); return 0, refused }, 0, refused},
		"panics":   {func() (int, error) { time.Sleep(time.Minute); panic("defect") }, 0, ErrInternal},
	} {
		synctest.Test(t, func(t *testing.T) {
			task := Begin(slog.New(slog.DiscardHandler), NewHealth(time.Hour), name, c.do)
			if task.Ends(59 * time.Second) {
				t.Errorf("%s: ends after less than a minute", name)
			}
			if !task.Ends(2*time.Second) || task.Result != c.want || !errors.Is(task.Err, c.err) {
				t.Errorf("%s: result %d, error %v", name, task.Result, task.Err)
			}
		})
	}
}

func TestTry_withoutHealth_panicIsAnError(t *testing.T) {
	if err := Try(slog.New(slog.DiscardHandler), nil, "x", func() error { panic("defect") }); !errors.Is(err, ErrInternal) {
		t.Errorf("error %v", err)
	}
}
