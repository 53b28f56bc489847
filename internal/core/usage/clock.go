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

// MaxAhead is how far the time of a sample may be in the future (Tick). Samples further ahead are rejected.
const MaxAhead = 10 * time.Minute

type clock struct {
	now    int64 // Unix nanoseconds; 0 until the first Tick
	latest int64 // the highest value of now since it was last set back
}

// set sets the present. It reports whether the clock has been set back, in one step or several, by more than MaxAhead.
func (c *clock) set(now time.Time) bool {
	at, ok := nanos(now)
	if !ok {
		return false
	}
	c.now = at
	c.latest = max(c.latest, at)
	if c.latest-at <= int64(MaxAhead) {
		return false
	}
	c.latest = at
	return true
}

// present returns a time in Unix nanoseconds, or the present if that time is in the future. Before the first Tick it returns the
// time unchanged.
func (c *clock) present(at int64) int64 {
	if c.lead(at) > 0 {
		return c.now
	}
	return at
}

// lead returns how far a time is in the future, 0 if it is not more than MaxAhead.
func (c *clock) lead(at int64) time.Duration {
	if c.now == 0 || at <= c.now+int64(MaxAhead) {
		return 0
	}
	return time.Duration(at - c.now)
}

// present moves times in the future to the present.
func (n *seen) present(c *clock) {
	n.first = c.present(n.first)
	n.last = c.present(n.last)
}

// present moves times to the present. The end of the window may be in the future by one interval.
func (o *observed) present(c *clock, interval time.Duration) {
	o.lastMemory = c.present(o.lastMemory)
	o.lastCPU = c.present(o.lastCPU)
	o.lastOOM = c.present(o.lastOOM)
	if limit := c.now + int64(interval); c.now != 0 && o.windowEnd > limit {
		o.windowEnd = limit
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
func (s *ContainerHistory) rewind(c *clock) {
	s.runs = s.runs.Present(stamp(c.now))
	interval := s.rules.interval
	lead := c.lead(max(s.cpu.last, s.memory.last))
	s.CPU.Age(int(lead / s.CPU.HalfLife()))
	ages := int(lead / s.Memory.HalfLife())
	s.Memory.Age(ages)
	shift := int64(ages) * int64(s.Memory.HalfLife())
	// The histogram has the peak of the current window at the end of the window: move it together with the end.
	move := func(o *observed) {
		to := min(o.windowEnd, c.now+int64(interval))
		if peak := o.peak(); peak > 0 && (shift > 0 || to != o.windowEnd) {
			s.Memory.SubtractNanos(float64(peak), 1, o.windowEnd-shift)
			s.Memory.AddNanos(float64(peak), 1, to)
		}
		o.windowEnd = to
		o.present(c, interval)
	}
	for in := s.instances; in != nil; in = in.next {
		in.starting = nil // its times are of the former clock
		move(&in.observed)
	}
	if r := s.restored; r != nil {
		for i := range r.windows {
			if w := &r.windows[i]; !w.used {
				move(&w.observed)
			}
		}
		r.observedUntil = c.present(r.observedUntil)
		r.known = c.present(r.known)
	}
	if s.extension != nil && s.load.extend != nil && s.extension.Latest().After(stamp(c.now+int64(maxLead))) {
		s.extension = s.load.extend()
	}
	s.cpu.present(c)
	s.memory.present(c)
	s.kill.at = c.present(s.kill.at)
	s.savedAt = c.present(s.savedAt)
	s.version++
}
