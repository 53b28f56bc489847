// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "math"

// wholeCores rounds millicores up to whole cores, at most the largest whole number of cores in an int64.
func wholeCores(milli int64) int64 {
	const most = math.MaxInt64 / 1000 * 1000
	if milli <= 0 {
		return 0
	}
	if milli > most {
		return most
	}
	return (milli + 999) / 1000 * 1000
}
