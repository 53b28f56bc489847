// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/startup"
)

// LearnStarts sets whether the starts of the containers of a workload are kept (ContainerHistory.Starts). When it is set to false, those
// that are kept are forgotten.
func (b *Store) LearnStarts(w cluster.Workload, on bool) {
	wl := b.workloads[w]
	if wl == nil && !on || wl != nil && wl.starts == on {
		return
	}
	b.workload(w).starts = on
	if on {
		return
	}
	for _, s := range wl.series {
		s.starts = nil
		for in := s.instances; in != nil; in = in.next {
			in.starting = nil
		}
	}
}

// observeStart adds a CPU sample to the start of a container, in cores.
func (in *instance) observeStart(cores float64, at, now int64) {
	start, more := in.starting.Observe(stamp(at), cores*1000, int64(in.ran.CPULimit))
	if start != nil {
		if in.series.starts == nil {
			in.series.starts = new(startup.Starts)
		}
		in.series.starts.Add(start, time.Unix(0, now))
	}
	if !more {
		in.starting = nil
	}
}
