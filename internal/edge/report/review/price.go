// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"math"
	"strconv"

	"podfit.dev/podfit/internal/core/wording"
)

// price formats money, without decimals unless it is small.
func price(v float64) string {
	if math.Abs(v) < 10 && math.Abs(v) >= 0.005 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return wording.Grouped(v)
}
