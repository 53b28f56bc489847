// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"time"

	"podfit.dev/podfit/internal/core/wording"
)

func ago(d time.Duration) string { return wording.Elapsed(d, "d") }
