// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"log/slog"
	"runtime/debug"
)

// Attempt runs a function for one object of a pass. If it panics, which is a defect of podfit, Attempt logs and counts the panic, the
// object is skipped, and the pass continues with the other objects.
func Attempt(log *slog.Logger, h *Health, object string, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			Skipped(log, h, object, cause)
		}
	}()
	do()
}

// Skipped counts and logs that an object was skipped because of a panic. Call it in the deferred function, so that the stack contains
// the location of the panic.
func Skipped(log *slog.Logger, h *Health, object string, cause any) {
	if h.failures != nil {
		h.failures.Inc()
	}
	log.Error("Skipped an object because of an internal error", slog.String("object", object), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
}
