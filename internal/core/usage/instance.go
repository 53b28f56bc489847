// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

// An instance is one container of one tracked pod. Times are Unix nanoseconds, 0 for never.
//
// Memory counts by its peak in a window as long as the memory interval, which starts with the instance's first
// sample. The peak of the window under way is in the series' histogram already, dated at the window's end, and
// replaced when a higher one comes:
//
//	      first sample         windowEnd                 windowEnd'
//	-----------|- - - - - - - - - -|- - - - - - - - - - - - - |
//	           peak in histogram ->^       next window's peak ^
type instance struct {
	series     *Series
	prev, next *instance // the series' other instances
	pod        *pod

	lastCPU    int64
	lastMemory int64 // an OOM kill sets it back to its own time
	windowEnd  int64 // exclusive
	memoryPeak int64 // bytes, of the window under way
	oomPeak    int64 // bytes that an OOM kill in the window under way showed to be needed
	lastOOM    int64 // no OOM kill up to this time counts (again)
	ran        Ran
}

// peak returns the bytes that the window under way has put into the histogram, 0 for none.
func (in *instance) peak() int64 { return max(in.memoryPeak, in.oomPeak) }

// addMemory puts a use of memory, or a need that an OOM kill showed, into the window it belongs to.
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
		// Upstream adds nothing here when there is no peak yet, which freezes the window (W-05).
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

// rewindow adapts the window under way to another interval. It starts where it started.
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

func (s *Series) addPeak(bytes, at int64) {
	if s.alignMemory {
		s.alignMemory = false
		s.Memory.Align(stamp(at))
	}
	s.Memory.AddNanos(float64(bytes), 1, at)
}
