// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"log/slog"
	"runtime/debug"
)

// Attempt does something for one object of a pass. A panic is a defect of podfit: it is logged and counted, that object is
// left as it is, and the others are not affected.
func Attempt(log *slog.Logger, h *Health, object string, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			Skipped(log, h, object, cause)
		}
	}()
	do()
}

// Skipped counts and logs that an object was skipped because of a panic. It is called while the stack still shows where.
func Skipped(log *slog.Logger, h *Health, object string, cause any) {
	if h.failures != nil {
		h.failures.Inc()
	}
	log.Error("Skipped an object because of an internal error", "object", object, "panic", cause, "stack", string(debug.Stack()))
}
