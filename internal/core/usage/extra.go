// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/codec"
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

// A window is the stored form of an instance. Times are Unix nanoseconds; they are stored in whole seconds.
type window struct {
	uid                                     uint64 // hash of the pod's UID
	windowEnd, lastMemory, lastCPU, lastOOM int64
	memoryPeak, oomPeak                     int64
	used                                    bool // given to the instance of its pod; not stored
}

func (w *window) peak() int64 { return max(w.memoryPeak, w.oomPeak) }

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
		w := window{
			uid: in.pod.uid, windowEnd: in.windowEnd, memoryPeak: in.memoryPeak, oomPeak: in.oomPeak,
			lastMemory: in.lastMemory, lastCPU: in.lastCPU, lastOOM: in.lastOOM,
		}
		if w != (window{uid: w.uid}) {
			windows = append(windows, w)
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
	own := *instance
	instance.lastOOM = max(own.lastOOM, stored.lastOOM)
	instance.lastCPU = max(own.lastCPU, stored.lastCPU)
	instance.lastMemory = stored.lastMemory
	instance.windowEnd = stored.windowEnd
	instance.memoryPeak = stored.memoryPeak
	instance.oomPeak = stored.oomPeak
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

// The flags of a window determine which of its fields are stored: the others are zero. Bits 0 to 3 are for times, bits 4 and 5
// for peaks.
const (
	firstPeakBit = 4
	maxFlags     = 1<<6 - 1
)

func (w *window) times() [4]*int64 {
	return [...]*int64{&w.windowEnd, &w.lastMemory, &w.lastCPU, &w.lastOOM}
}

func (w *window) peaks() [2]*int64 { return [...]*int64{&w.memoryPeak, &w.oomPeak} }

func (w *window) flags() byte {
	flags := byte(0)
	for bit, at := range w.times() {
		if *at != 0 {
			flags |= 1 << bit
		}
	}
	for bit, peak := range w.peaks() {
		if *peak != 0 {
			flags |= 1 << (firstPeakBit + bit)
		}
	}
	return flags
}

// encode appends a window. Times are stored as differences from updated, in seconds.
func (w *window) encode(encoder *codec.Encoder, updated int64) {
	encoder.Uint64(w.uid)
	encoder.Byte(w.flags())
	for _, at := range w.times() {
		if *at != 0 {
			encoder.Varint(seconds(*at) - updated)
		}
	}
	for _, peak := range w.peaks() {
		if *peak != 0 {
			encoder.Uvarint(uint64(*peak))
		}
	}
}

func decodeWindow(decoder *codec.Decoder, updated int64) window {
	decoded := window{uid: decoder.Uint64("pod of a window")}
	flags := decoder.Byte("flags of a window", maxFlags)
	if flags == 0 {
		decoder.Fail("window without a value")
	}
	for bit, at := range decoded.times() {
		if flags&(1<<bit) != 0 {
			distance := decoder.Varint("time of a window", 1-updated, maxSecond-updated) // the time is from 1 to maxSecond
			*at = (updated + distance) * int64(time.Second)
		}
	}
	for bit, peak := range decoded.peaks() {
		if flags&(1<<(firstPeakBit+bit)) == 0 {
			continue
		}
		*peak = int64(decoder.Uvarint("peak of a window", maxBytes))
		if *peak == 0 {
			decoder.Fail("peak of a window is zero")
		}
	}
	if decoded.peak() > 0 && decoded.windowEnd == 0 {
		decoder.Fail("window with a peak has no end")
	}
	return decoded
}

func (x extra) encode() []byte {
	encoder := codec.NewEncoder(make([]byte, 0, 32+20*min(len(x.windows), maxWindows)+len(x.extension)))
	version := byte(extraVersion)
	switch {
	case x.starts.Len() > 0:
		version = extraStarts
	case x.form != "":
		version = extraForm
	}
	encoder.Byte(version)
	encoder.Uvarint(uint64(x.updated))
	for _, v := range []int64{seconds(x.memory.first), seconds(x.memory.last), x.memory.count, seconds(x.oomAt), x.oomBytes} {
		encoder.Uvarint(uint64(v))
	}
	windows := sortedWindows(x.windows[:min(len(x.windows), maxWindows)])
	encoder.Uvarint(uint64(len(windows)))
	for i := range windows {
		windows[i].encode(encoder, x.updated)
	}
	if version != extraVersion {
		encoder.String(x.form)
	}
	encoder.Bytes(x.extension)
	if version == extraStarts {
		x.starts.Encode(encoder)
	}
	return encoder.Data()
}

// sortedWindows sorts windows by pod, in place, and removes duplicates.
func sortedWindows(ws []window) []window {
	slices.SortFunc(ws, func(x, y window) int { return cmp.Compare(x.uid, y.uid) })
	return slices.CompactFunc(ws, func(x, y window) bool { return x.uid == y.uid })
}

// decodeExtra decodes what encode has written. No data is an empty extra.
func decodeExtra(data []byte) (extra, error) {
	if len(data) == 0 {
		return extra{}, nil
	}
	decoder := codec.NewDecoder(data)
	version := decoder.Byte("version", 255)
	if version < extraVersion || version > extraStarts {
		return extra{}, fmt.Errorf("unsupported version %d of extra data", version)
	}
	second := func(name string) int64 { return int64(decoder.Uvarint(name, maxSecond)) }
	nanosecond := func(name string) int64 { return second(name) * int64(time.Second) }
	decoded := extra{updated: second("time of the checkpoint")}
	decoded.memory.first = nanosecond("time of the first memory sample")
	decoded.memory.last = nanosecond("time of the last memory sample")
	decoded.memory.count = int64(decoder.Uvarint("number of memory samples", maxCount))
	decoded.oomAt = nanosecond("time of the last OOM kill")
	decoded.oomBytes = int64(decoder.Uvarint("memory of the last OOM kill", maxBytes))
	if decoded.memory.first > decoded.memory.last {
		decoder.Fail("first memory sample is later than the last")
	}
	for range decoder.Count("number of windows", maxWindows) {
		next := decodeWindow(decoder, decoded.updated)
		if n := len(decoded.windows); n > 0 && decoded.windows[n-1].uid >= next.uid {
			decoder.Fail("windows are not sorted by pod")
		}
		if decoder.Err() != nil {
			break
		}
		decoded.windows = append(decoded.windows, next)
	}
	if version != extraVersion {
		decoded.form = decoder.String("form of the model state", maxForm)
	}
	decoded.extension = decoder.Bytes("model state", maxHistory)
	if version == extraStarts {
		decoded.starts = startup.DecodeStarts(decoder)
	}
	if err := decoder.Finish("extension data"); err != nil {
		return extra{}, err
	}
	return decoded, nil
}

const (
	maxSecond = 7_258_118_400 // the year 2200
	maxCount  = 1 << 50
)

// seconds returns Unix nanoseconds in whole seconds.
func seconds(at int64) int64 { return at / int64(time.Second) }
