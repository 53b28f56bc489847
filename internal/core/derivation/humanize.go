// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package derivation

import (
	"math"
	"strconv"
)

// humanized rounds memory to two decimals of the largest binary unit that fits, as upstream's deprecated flag
// --humanize-memory does. A part of a byte counts as a whole one, as Kubernetes reads such amounts.
func humanized(bytes int64) int64 {
	for _, unit := range [...]int64{1 << 40, 1 << 30, 1 << 20, 1 << 10} {
		if bytes < unit {
			continue
		}
		text := strconv.FormatFloat(float64(bytes)/float64(unit), 'f', 2, 64)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return bytes // cannot be: FormatFloat has just written it
		}
		return int64(math.Ceil(v * float64(unit)))
	}
	return bytes
}
