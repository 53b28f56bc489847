// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"log/slog"
	"time"
)

// A Task is a call that runs beside the passes of a job. After Ends, it has the outcome.
type Task[Result any] struct {
	Result Result
	Err    error
	end    chan struct{}
}

// Begin begins a call about an object, which must end by itself. A panic is an error.
func Begin[Result any](log *slog.Logger, h *Health, object string, do func() (Result, error)) *Task[Result] {
	t := &Task[Result]{end: make(chan struct{})}
	go func() {
		defer close(t.end)
		t.Err = Try(log, h, object, func() (err error) {
			t.Result, err = do()
			return err
		})
	}()
	return t
}

// Ends reports whether the call ends within some time.
func (t *Task[Result]) Ends(within time.Duration) bool {
	select {
	case <-t.end:
		return true
	case <-time.After(within):
		return false
	}
}
