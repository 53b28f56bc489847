// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"

	"podfit.dev/podfit/internal/core/hourly"
)

// decodedHours is how many hours of stored peaks are decoded for display: more than any profile stores.
const decodedHours = 60 * 24

// StoredPeaks returns the hourly peaks in stored model state, in cores and bytes. known is false if model state of
// this form contains none.
func StoredPeaks(form string, data []byte) (cpu, memory hourly.Peaks, known bool, err error) {
	params := Balanced()
	memo := Memo{p: &params, CPU: hourly.NewPeaks(decodedHours), Memory: hourly.NewPeaks(decodedHours)}
	switch form {
	case memo.Form():
		err = memo.UnmarshalBinary(data)
		cpu = memo.CPU
		memory = memo.Memory
	case (&Busy{}).Form():
		busy := Busy{Memo: memo} // its CPU is a histogram, without times
		err = busy.UnmarshalBinary(data)
		memory = busy.Memory
	default:
		return cpu, memory, false, nil
	}
	if err != nil {
		return hourly.Peaks{}, hourly.Peaks{}, false, fmt.Errorf("read hourly peaks: %w", err)
	}
	return cpu, memory, true, nil
}
