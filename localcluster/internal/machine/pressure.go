// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"math"
	"time"
)

// A Pressure is the time that tasks have lost because all of them waited for memory, like the pressure stall information (PSI) of Linux.
type Pressure struct {
	Seconds              float64 // since the start
	Avg10, Avg60, Avg300 float64 // mean share of the time, weighted exponentially with so many seconds
}

// pass adds the time that passed, of which tasks waited for a share. More than 1 counts as 1.
func (p *Pressure) pass(share float64, passed time.Duration) {
	share = min(share, 1)
	seconds := passed.Seconds()
	p.Seconds += share * seconds
	for window, mean := range map[float64]*float64{10: &p.Avg10, 60: &p.Avg60, 300: &p.Avg300} {
		*mean = share + (*mean-share)*math.Exp(-seconds/window)
	}
}
