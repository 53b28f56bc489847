// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "time"

// A clock can be wrong: a checkpoint was written while the clock was ahead, or the clock is set back while the process runs.
// Then history has times in the future. They are moved to the present, and history is kept:
//
//   - times of the latest event (last sample, last update, end of a memory window) become the present, so that new samples
//     are not rejected as older;
//   - a histogram whose last sample is n half-lives ahead is aged by n half-lives, so that new samples do not weigh 2^n times
//     less than the old ones;
//   - an extension with a time more than maxLead ahead is reset, because its times cannot be shifted.

// maxLead is how far the newest time of an extension may be in the future. Extensions keep weeks of history by the hour or the day,
// and accept samples that are older than the newest by maxLead.
const maxLead = 48 * time.Hour

// present returns a time in Unix nanoseconds, or the present if that time is in the future. Before the first Tick it returns the
// time unchanged.
func (b *Store) present(at int64) int64 {
	if b.lead(at) > 0 {
		return b.now
	}
	return at
}

// lead returns how far a time is in the future, 0 if it is not more than MaxAhead.
func (b *Store) lead(at int64) time.Duration {
	if b.now == 0 || at <= b.now+int64(b.cfg.MaxAhead) {
		return 0
	}
	return time.Duration(at - b.now)
}

// present moves times in the future to the present.
func (n *seen) present(b *Store) {
	n.first = b.present(n.first)
	n.last = b.present(n.last)
}

// present moves times of a restored window to the present. Its end may be in the future by one interval.
func (w *window) present(b *Store, interval time.Duration) {
	w.lastMemory = b.present(w.lastMemory)
	w.lastCPU = b.present(w.lastCPU)
	w.lastOOM = b.present(w.lastOOM)
	if limit := b.now + int64(interval); b.now != 0 && w.windowEnd > limit {
		w.windowEnd = limit
	}
}

// older returns the reference time of a stored histogram whose last sample is in the future by lead, aged accordingly.
func older(reference time.Time, lead, halfLife time.Duration) time.Time {
	if reference.IsZero() || halfLife <= 0 {
		return reference
	}
	return reference.Add(-(lead / halfLife) * halfLife)
}

// rewind moves all times in the future to the present, after the clock has been set back.
func (b *Store) rewind() {
	for _, wl := range b.workloads {
		for _, s := range wl.series {
			b.rewindSeries(s)
		}
	}
}

func (b *Store) rewindSeries(series *ContainerHistory) {
	interval := series.rules.interval
	lead := b.lead(max(series.cpu.last, series.memory.last))
	series.CPU.Age(int(lead / series.CPU.HalfLife()))
	ages := int(lead / series.Memory.HalfLife())
	series.Memory.Age(ages)
	shift := int64(ages) * int64(series.Memory.HalfLife())
	// The histogram has the peak of the current window at the end of the window: move it together with the end.
	move := func(peak int64, end *int64) {
		to := min(*end, b.now+int64(interval))
		if peak > 0 && (shift > 0 || to != *end) {
			series.Memory.SubtractNanos(float64(peak), 1, *end-shift)
			series.Memory.AddNanos(float64(peak), 1, to)
		}
		*end = to
	}
	for in := series.instances; in != nil; in = in.next {
		in.lastCPU = b.present(in.lastCPU)
		in.lastMemory = b.present(in.lastMemory)
		in.lastOOM = b.present(in.lastOOM)
		in.starting = nil // its times are of the former clock
		move(in.peak(), &in.windowEnd)
	}
	if r := series.restored; r != nil {
		for i := range r.windows {
			if w := &r.windows[i]; !w.used {
				move(w.peak(), &w.windowEnd)
				w.present(b, interval)
			}
		}
		r.observedUntil = b.present(r.observedUntil)
		r.known = b.present(r.known)
	}
	if series.extension != nil && series.load.extend != nil && series.extension.Latest().After(stamp(b.now+int64(maxLead))) {
		series.extension = series.load.extend()
	}
	series.cpu.present(b)
	series.memory.present(b)
	series.oomAt = b.present(series.oomAt)
	series.savedAt = b.present(series.savedAt)
	series.version++
}
