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
			Skipped(log, h, object, cause, string(debug.Stack()))
		}
	}()
	do()
}

// Skipped counts and logs that an object was skipped because of a panic. stack is the stack at the panic.
func Skipped(log *slog.Logger, h *Health, object string, cause any, stack string) {
	if h.failures != nil {
		h.failures.Inc()
	}
	log.Error("Skipped an object because of an internal error", slog.String("object", object), slog.Any("panic", cause), slog.String("stack", stack))
}
