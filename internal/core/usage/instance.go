// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/startup"
)

// An instance is one container of one tracked pod. Times are Unix nanoseconds, 0 for never.
//
// Memory is aggregated by the peak of each window. Windows have the length of the memory interval; the first starts with the first
// sample of the instance. The histogram already contains the peak of the current window, with the time of the window's end. It is
// replaced when a higher one is observed:
//
//	      first sample         windowEnd                 windowEnd'
//	-----------|- - - - - - - - - -|- - - - - - - - - - - - - |
//	           peak in histogram ->^       next window's peak ^
type instance struct {
	series     *ContainerHistory
	prev, next *instance // the series' other instances
	pod        *pod

	observed
	ran Ran

	starting *startup.Observer // nil if its start is not followed
}

// observed is what was observed of a container in one pod, as far as it is stored. Times are Unix nanoseconds; 0 is none.
type observed struct {
	windowEnd  int64 // exclusive
	lastMemory int64 // an OOM kill sets it to the time of the kill
	lastCPU    int64
	lastOOM    int64 // OOM kills up to this time are ignored
	memoryPeak int64 // bytes, of the current window
	oomPeak    int64 // bytes that an OOM kill in the current window showed to be needed
}

// peak returns the peak of the current window that is in the histogram, in bytes; 0 for none.
func (o *observed) peak() int64 { return max(o.memoryPeak, o.oomPeak) }

// addMemory adds used memory, or memory that an OOM kill showed to be needed, to the window of its time.
func (in *instance) addMemory(bytes, at int64, oom bool) {
	series := in.series
	interval := int64(in.series.rules.interval)
	in.lastMemory = at
	if in.windowEnd == 0 {
		in.windowEnd = at
	}
	if at < in.windowEnd {
		old := in.peak()
		if bytes <= old {
			return
		}
		// Upstream adds nothing here when there is no peak yet, which freezes the window (W-05 in docs/migrate.md).
		if old > 0 {
			series.Memory.SubtractNanos(float64(old), 1, in.windowEnd)
		}
	} else {
		in.windowEnd += (at-in.windowEnd)/interval*interval + interval
		in.memoryPeak = 0
		in.oomPeak = 0
	}
	series.addPeak(bytes, in.windowEnd)
	if oom {
		in.oomPeak = bytes
	} else {
		in.memoryPeak = bytes
	}
}

// rewindow changes the length of the current window. Its start stays.
func (in *instance) rewindow(before, after int64) {
	peak := in.peak()
	if peak == 0 || before == after {
		return
	}
	start := in.windowEnd - before
	end := start + max(0, in.lastMemory-start)/after*after + after
	in.series.Memory.SubtractNanos(float64(peak), 1, in.windowEnd)
	in.series.Memory.AddNanos(float64(peak), 1, end)
	in.windowEnd = end
}

func (s *ContainerHistory) addPeak(bytes, at int64) {
	if s.alignMemory {
		s.alignMemory = false
		s.Memory.Align(stamp(at))
	}
	s.Memory.AddNanos(float64(bytes), 1, at)
}

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
