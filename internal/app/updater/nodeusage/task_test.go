// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package nodeusage

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
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
		"panics":   {func() (int, error) { time.Sleep(time.Minute); panic("defect") }, 0, process.ErrInternal},
	} {
		synctest.Test(t, func(t *testing.T) {
			task := begin(slog.New(slog.DiscardHandler), process.NewHealth(time.Hour), name, c.do)
			if task.ends(59 * time.Second) {
				t.Errorf("%s: ends after less than a minute", name)
			}
			if !task.ends(2*time.Second) || task.result != c.want || !errors.Is(task.err, c.err) {
				t.Errorf("%s: result %d, error %v", name, task.result, task.err)
			}
		})
	}
}

// A call that has ended is seen at once, also if the time to wait for it is over, too.
func TestTask_endedCallAndNoTimeLeft_isSeen(t *testing.T) {
	done := &task[int]{end: make(chan struct{})}
	close(done.end)
	for range 10_000 {
		if !done.ends(0) {
			t.Fatal("a call that has ended is not seen")
		}
	}
}
