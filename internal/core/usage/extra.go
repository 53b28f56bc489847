// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/startup"
)

// extra is data that checkpoint format v3 has no field for. It is valid only with the status of the same time.
type extra struct {
	updated         int64 // Unix seconds of the status it belongs to
	memory          seen
	oomAt, oomBytes int64
	windows         []window // sorted by pod
	form            string   // of the model state
	extension       []byte   // model state, if it cannot be stored in another object
	starts          *startup.Starts
}

// A window is the stored form of an instance. Times are stored in whole seconds.
type window struct {
	uid uint64 // hash of the pod's UID
	observed
	used bool // given to the instance of its pod; not stored
}

// restored is restored data that waits for pods that have not been observed yet, and for an extension that does not exist yet.
type restored struct {
	windows       []window // sorted by pod
	history       History  // without Data after the extension has decoded it
	known         int64    // when history was stored, but not in the future; Unix nanoseconds
	observedUntil int64    // the extension has already observed samples until this time; Unix nanoseconds
	latest        int64    // newest time that is accepted in model state; Unix seconds, 0 for any
}

// maxWindows is the most windows that are stored of a container: those with the highest peaks. They take 15 KiB of the 256 KiB
// that annotations may have.
const maxWindows = 512

// windows returns the windows to store: those of tracked instances, and restored ones that still wait for their pods. If there are
// more than maxWindows, those with the highest peaks come first.
func (s *ContainerHistory) windows(now int64) []window {
	var windows []window
	for in := s.instances; in != nil; in = in.next {
		if in.observed != (observed{}) {
			windows = append(windows, window{uid: in.pod.uid, observed: in.observed})
		}
	}
	if s.restored != nil {
		for _, w := range s.restored.windows {
			if !w.used && now < s.awaits(&w) {
				windows = append(windows, w)
			}
		}
	}
	if len(windows) > maxWindows {
		slices.SortFunc(windows, func(x, y window) int {
			return cmp.Or(cmp.Compare(y.peak(), x.peak()), cmp.Compare(y.lastOOM, x.lastOOM), cmp.Compare(x.uid, y.uid))
		})
	}
	return windows
}

// withoutWindows returns the memory histogram without the peaks of windows that have not ended at a time, and the windows to store.
func withoutWindows(s *ContainerHistory, now int64) (histogram.Histogram, []window) {
	memory := s.Memory.Clone()
	windows := s.windows(now)
	for i := range windows {
		if w := &windows[i]; w.peak() > 0 && now < w.windowEnd {
			memory.SubtractNanos(float64(w.peak()), 1, w.windowEnd)
		}
	}
	return memory, windows
}

// awaits returns until when a restored window waits for its pod. After that it has no effect: its peak is in the histogram, and an
// OOM kill of that time is rejected as old.
func (s *ContainerHistory) awaits(w *window) int64 {
	if w.lastOOM == 0 {
		return w.windowEnd
	}
	return max(w.windowEnd, w.lastOOM+int64(s.rules.interval))
}

// adopt restores the windows of a checkpoint: into the histogram now, and into instances as their pods are observed. The histogram
// already has the peaks of windows that ended before the checkpoint was made.
func (s *ContainerHistory) adopt(c *clock, x extra, updated int64) {
	if len(x.windows) == 0 {
		return
	}
	s.waiting().windows = x.windows
	for i := range x.windows {
		w := &x.windows[i]
		// A window is never longer than the interval, whatever is stored.
		w.windowEnd = min(w.windowEnd, updated+int64(s.rules.interval))
		underWay := updated < w.windowEnd
		w.present(c, s.rules.interval)
		if p := w.peak(); p > 0 && underWay {
			s.addPeak(p, w.windowEnd)
		}
	}
	for in := s.instances; in != nil; in = in.next {
		s.resume(in)
	}
}

func (s *ContainerHistory) waiting() *restored {
	if s.restored == nil {
		s.restored = new(restored)
	}
	return s.restored
}

// resume restores the stored window of a container in one pod.
func (s *ContainerHistory) resume(instance *instance) {
	if s.restored == nil {
		return
	}
	i, ok := slices.BinarySearchFunc(s.restored.windows, instance.pod.uid, func(w window, uid uint64) int {
		return cmp.Compare(w.uid, uid)
	})
	if !ok {
		return
	}
	stored := &s.restored.windows[i]
	if stored.used {
		return
	}
	stored.used = true
	own := instance.observed
	instance.observed = stored.observed
	instance.lastOOM = max(own.lastOOM, stored.lastOOM)
	instance.lastCPU = max(own.lastCPU, stored.lastCPU)
	// Samples observed before the checkpoint was restored have opened another window: merge the two, unless they do not overlap.
	if p := own.peak(); p > 0 && own.windowEnd > stored.windowEnd-int64(s.rules.interval) {
		s.Memory.SubtractNanos(float64(p), 1, own.windowEnd)
		instance.addMemory(p, max(own.lastMemory, instance.lastMemory), own.oomPeak == p)
	}
}

// The encoding of an extra is a version byte, then varints; times are in seconds. Version 2 has the form of the model state
// before the model state, which comes last in both. Version 3 is version 2, and the starts after it.
const (
	extraVersion = 1
	extraForm    = 2
	extraStarts  = 3
)

// fields returns what is stored if it is not zero: times, then peaks. The flags of a window have a bit for each.
func (o *observed) fields() [6]*int64 {
	return [...]*int64{&o.windowEnd, &o.lastMemory, &o.lastCPU, &o.lastOOM, &o.memoryPeak, &o.oomPeak}
}

const (
	firstPeak = 4 // in fields
	maxFlags  = 1<<6 - 1
)

// code encodes or decodes a window. Times are stored as differences from updated, in seconds.
func (w *window) code(c *codec.Coder, updated int64) {
	c.Uint64("pod of a window", &w.uid)
	flags := byte(0)
	for i, v := range w.fields() {
		if *v != 0 {
			flags |= 1 << i
		}
	}
	codec.Byte(c, "flags of a window", &flags, maxFlags)
	if flags == 0 {
		c.Fail("window without a value")
	}
	for i, v := range w.fields() {
		switch {
		case flags&(1<<i) == 0:
		case i < firstPeak:
			distance := seconds(*v) - updated
			codec.Varint(c, "time of a window", &distance, 1-updated, codec.MaxSecond-updated) // the time is from 1 to codec.MaxSecond
			if c.Decoding() {
				*v = (updated + distance) * int64(time.Second)
			}
		default:
			codec.Uvarint(c, "peak of a window", v, MaxBytes)
			if *v == 0 {
				c.Fail("peak of a window is zero")
			}
		}
	}
	if w.peak() > 0 && w.windowEnd == 0 {
		c.Fail("window with a peak has no end")
	}
}

func (x extra) encode() []byte {
	x.windows = sortedWindows(x.windows[:min(len(x.windows), maxWindows)])
	c := codec.NewEncoder(make([]byte, 0, 32+20*len(x.windows)+len(x.extension)))
	x.Code(c)
	return c.Data()
}

// Code implements codec.State.
func (x *extra) Code(c *codec.Coder) {
	version := byte(extraVersion)
	switch {
	case x.starts.Len() > 0:
		version = extraStarts
	case x.form != "":
		version = extraForm
	}
	version = c.Version(version, extraVersion, extraStarts)
	codec.Uvarint(c, "time of the checkpoint", &x.updated, codec.MaxSecond)
	codeSeconds(c, "time of the first memory sample", &x.memory.first)
	codeSeconds(c, "time of the last memory sample", &x.memory.last)
	codec.Uvarint(c, "number of memory samples", &x.memory.count, maxCount)
	codeSeconds(c, "time of the last OOM kill", &x.oomAt)
	codec.Uvarint(c, "memory of the last OOM kill", &x.oomBytes, MaxBytes)
	if x.memory.first > x.memory.last {
		c.Fail("first memory sample is later than the last")
	}
	codec.Length(c, "number of windows", &x.windows, maxWindows)
	for i := range x.windows {
		x.windows[i].code(c, x.updated)
		if i > 0 && x.windows[i-1].uid >= x.windows[i].uid {
			c.Fail("windows are not sorted by pod")
		}
	}
	if version != extraVersion {
		c.String("form of the model state", &x.form, maxForm)
	}
	c.Bytes("model state", &x.extension, maxHistory)
	if version == extraStarts {
		startup.Code(c, &x.starts)
	}
}

// codeSeconds encodes or decodes Unix nanoseconds in whole seconds.
func codeSeconds(c *codec.Coder, name string, at *int64) {
	whole := seconds(*at)
	codec.Uvarint(c, name, &whole, codec.MaxSecond)
	if c.Decoding() {
		*at = whole * int64(time.Second)
	}
}

// sortedWindows sorts windows by pod, in place, and removes duplicates.
func sortedWindows(ws []window) []window {
	slices.SortFunc(ws, func(x, y window) int { return cmp.Compare(x.uid, y.uid) })
	return slices.CompactFunc(ws, func(x, y window) bool { return x.uid == y.uid })
}

// decodeExtra decodes what encode has written. No data is an empty extra.
func decodeExtra(data []byte) (extra, error) {
	decoded, err := codec.Decode[extra](data, "extension data")
	if decoded == nil {
		return extra{}, err
	}
	return *decoded, nil
}

const maxCount = 1 << 50

// seconds returns Unix nanoseconds in whole seconds.
func seconds(at int64) int64 { return at / int64(time.Second) }
