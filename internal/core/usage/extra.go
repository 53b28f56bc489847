// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// extra is what a checkpoint of format v3 has no room for. It is stored beside one and holds only together with it.
type extra struct {
	updated         int64 // Unix seconds of the status it belongs to
	memory          seen
	oomAt, oomBytes int64
	windows         []window // sorted by pod
	form            string   // of the extension
	extension       []byte   // only where it cannot be stored elsewhere
}

// A window is what is stored of an instance. Times are Unix nanoseconds, in whole seconds once stored.
type window struct {
	uid                                     uint64 // hash of the pod's UID
	windowEnd, lastMemory, lastCPU, lastOOM int64
	memoryPeak, oomPeak                     int64
	used                                    bool // its pod has come; not stored
}

func (r *window) peak() int64 { return max(r.memoryPeak, r.oomPeak) }

// restored is what a Series got from storage for pods that have not come up again yet, and for an extension that has not
// been asked for yet.
type restored struct {
	windows []window // sorted by pod
	history History  // without Data once the extension has it
	known   int64    // when history was stored, or the present if that lies ahead; Unix nanoseconds
	told    int64    // what was measured until then the extension has seen already; Unix nanoseconds
	latest  int64    // no later time can be remembered; Unix seconds, 0 when it is not known
}

// Of a workload with more pods than this, only the windows with the highest peaks are stored. Where a checkpoint
// is an annotation, they take some 15 of the 256 KiB there is room for.
const maxWindows = 512

// windows returns what to store of the instances at a time: those tracked, and those restored that still wait for
// their pods. Sorted by pod.
func (s *Series) windows(now int64) []window {
	var ws []window
	for in := s.instances; in != nil; in = in.next {
		w := window{
			uid: in.pod.uid, windowEnd: in.windowEnd, memoryPeak: in.memoryPeak, oomPeak: in.oomPeak,
			lastMemory: in.lastMemory, lastCPU: in.lastCPU, lastOOM: in.lastOOM,
		}
		if w != (window{uid: w.uid}) {
			ws = append(ws, w)
		}
	}
	if s.restored != nil {
		for _, w := range s.restored.windows {
			if !w.used && now < s.awaits(&w) {
				ws = append(ws, w)
			}
		}
	}
	if len(ws) > maxWindows {
		slices.SortFunc(ws, func(x, y window) int {
			return cmp.Or(cmp.Compare(y.peak(), x.peak()), cmp.Compare(y.lastOOM, x.lastOOM), cmp.Compare(x.uid, y.uid))
		})
	}
	return ws
}

// awaits returns until when a restored window waits for its pod. After that, it no longer tells anything that the
// histogram does not hold or that would not be rejected as old.
func (s *Series) awaits(w *window) int64 {
	if w.lastOOM == 0 {
		return w.windowEnd
	}
	return max(w.windowEnd, w.lastOOM+int64(s.rules.interval))
}

// adopt puts the windows of a checkpoint back: to their instances as these come, and into the histogram at once.
// Windows that had ended when the checkpoint was made are in its histogram already.
func (s *Series) adopt(b *Book, x extra, updated int64) {
	if len(x.windows) == 0 {
		return
	}
	s.waiting().windows = x.windows
	for i := range x.windows {
		w := &x.windows[i]
		// However a window came by its end, it cannot last longer than a whole one.
		w.windowEnd = min(w.windowEnd, updated+int64(s.rules.interval))
		underWay := updated < w.windowEnd
		w.present(b, s.rules.interval)
		if p := w.peak(); p > 0 && underWay {
			s.addPeak(p, w.windowEnd)
		}
	}
	for in := s.instances; in != nil; in = in.next {
		s.resume(in)
	}
}

func (s *Series) waiting() *restored {
	if s.restored == nil {
		s.restored = new(restored)
	}
	return s.restored
}

// resume gives an instance the window that was stored of it.
func (s *Series) resume(in *instance) {
	if s.restored == nil {
		return
	}
	i, ok := slices.BinarySearchFunc(s.restored.windows, in.pod.uid, func(w window, uid uint64) int {
		return cmp.Compare(w.uid, uid)
	})
	if !ok {
		return
	}
	w := &s.restored.windows[i]
	if w.used {
		return
	}
	w.used = true
	own := *in
	in.lastOOM = max(own.lastOOM, w.lastOOM)
	in.lastCPU = max(own.lastCPU, w.lastCPU)
	in.lastMemory, in.windowEnd = w.lastMemory, w.windowEnd
	in.memoryPeak, in.oomPeak = w.memoryPeak, w.oomPeak
	// Samples that came before the checkpoint opened a window of their own: the two are one, unless that had ended before.
	if p := own.peak(); p > 0 && own.windowEnd > w.windowEnd-int64(s.rules.interval) {
		s.Memory.SubtractNanos(float64(p), 1, own.windowEnd)
		in.addMemory(p, max(own.lastMemory, in.lastMemory), own.oomPeak == p)
	}
}

// The encoding is a version byte, then varints; times are in seconds. Of a window only what is set is written. An
// extension comes last: since version 2 with its form before it.
const (
	extraVersion = 1
	extraForm    = 2
)

const (
	hasEnd = 1 << iota
	hasMemory
	hasCPU
	hasOOM
	hasPeak
	hasOOMPeak
	windowBits
)

func (x extra) encode() []byte {
	b := make([]byte, 0, 32+20*min(len(x.windows), maxWindows)+len(x.extension))
	b = append(b, extraVersion)
	if x.form != "" {
		b[0] = extraForm
	}
	b = binary.AppendUvarint(b, uint64(x.updated))
	for _, v := range []int64{seconds(x.memory.first), seconds(x.memory.last), x.memory.count, seconds(x.oomAt), x.oomBytes} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	ws := sortedWindows(x.windows[:min(len(x.windows), maxWindows)])
	b = binary.AppendUvarint(b, uint64(len(ws)))
	for i := range ws {
		w := &ws[i]
		b = binary.LittleEndian.AppendUint64(b, w.uid)
		at := len(b)
		b = append(b, 0)
		for _, t := range []struct {
			bit byte
			v   int64
		}{{hasEnd, w.windowEnd}, {hasMemory, w.lastMemory}, {hasCPU, w.lastCPU}, {hasOOM, w.lastOOM}} {
			if t.v != 0 {
				b[at] |= t.bit
				b = binary.AppendVarint(b, seconds(t.v)-x.updated)
			}
		}
		for _, p := range []struct {
			bit byte
			v   int64
		}{{hasPeak, w.memoryPeak}, {hasOOMPeak, w.oomPeak}} {
			if p.v != 0 {
				b[at] |= p.bit
				b = binary.AppendUvarint(b, uint64(p.v))
			}
		}
	}
	if x.form != "" {
		b = binary.AppendUvarint(b, uint64(len(x.form)))
		b = append(b, x.form...)
	}
	b = binary.AppendUvarint(b, uint64(len(x.extension)))
	return append(b, x.extension...)
}

// sortedWindows sorts windows by pod, in place, and leaves one of each.
func sortedWindows(ws []window) []window {
	slices.SortFunc(ws, func(x, y window) int { return cmp.Compare(x.uid, y.uid) })
	return slices.CompactFunc(ws, func(x, y window) bool { return x.uid == y.uid })
}

// decodeExtra returns what encode has written. Nothing at all is an empty extra.
func decodeExtra(data []byte) (extra, error) {
	if len(data) == 0 {
		return extra{}, nil
	}
	if data[0] != extraVersion && data[0] != extraForm {
		return extra{}, fmt.Errorf("version %d is not known", data[0])
	}
	r := reader{data: data[1:]}
	x := extra{updated: r.uvarint(maxSecond)}
	x.memory = seen{first: r.uvarint(maxSecond) * 1e9, last: r.uvarint(maxSecond) * 1e9, count: r.uvarint(maxCount)}
	x.oomAt, x.oomBytes = r.uvarint(maxSecond)*1e9, r.uvarint(maxBytes)
	if x.memory.first > x.memory.last {
		r.fail("the first sample of memory is later than the last")
	}
	n := r.uvarint(maxWindows)
	for range n {
		if r.err != nil {
			break
		}
		w := window{uid: r.uint64()}
		flags := r.byte()
		if flags == 0 || flags >= windowBits {
			r.fail("a window's flags are not known")
		}
		for _, t := range []struct {
			bit byte
			to  *int64
		}{{hasEnd, &w.windowEnd}, {hasMemory, &w.lastMemory}, {hasCPU, &w.lastCPU}, {hasOOM, &w.lastOOM}} {
			if flags&t.bit != 0 {
				*t.to = r.second(x.updated) * 1e9
			}
		}
		for _, p := range []struct {
			bit byte
			to  *int64
		}{{hasPeak, &w.memoryPeak}, {hasOOMPeak, &w.oomPeak}} {
			if flags&p.bit != 0 {
				if *p.to = r.uvarint(maxBytes); *p.to == 0 {
					r.fail("a peak is zero")
				}
			}
		}
		if w.peak() > 0 && w.windowEnd == 0 {
			r.fail("a peak has no window")
		}
		if k := len(x.windows); k > 0 && x.windows[k-1].uid >= w.uid {
			r.fail("windows are not sorted")
		}
		x.windows = append(x.windows, w)
	}
	if data[0] == extraForm {
		x.form = r.text(maxForm)
	}
	if n := r.uvarint(maxHistory); r.err == nil && n != int64(len(r.data)) {
		r.fail("it does not end where it should")
	}
	if r.err != nil {
		return extra{}, r.err
	}
	x.extension = slices.Clone(r.data)
	return x, nil
}

const (
	maxSecond = 7_258_118_400 // the year 2200
	maxCount  = 1 << 50
)

// seconds returns Unix nanoseconds in whole seconds.
func seconds(at int64) int64 { return at / int64(time.Second) }

// A reader takes an encoding apart. After the first error everything it reads is zero.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = errors.New(why)
	}
	r.data = nil
}

func (r *reader) uvarint(limit uint64) int64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > limit {
		r.fail("a number is cut off or too large")
		return 0
	}
	r.data = r.data[n:]
	return int64(v)
}

// second reads a time that is stored as its distance from another, in seconds. It is never zero.
func (r *reader) second(from int64) int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 || v > maxSecond || v < -maxSecond || from+v <= 0 || from+v > maxSecond {
		r.fail("a time is cut off or out of range")
		return 0
	}
	r.data = r.data[n:]
	return from + v
}

func (r *reader) uint64() uint64 {
	if len(r.data) < 8 {
		r.fail("a pod is cut off")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data)
	r.data = r.data[8:]
	return v
}

func (r *reader) text(limit uint64) string {
	n := r.uvarint(limit)
	if int64(len(r.data)) < n {
		r.fail("a text is cut off")
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.fail("flags are cut off")
		return 0
	}
	v := r.data[0]
	r.data = r.data[1:]
	return v
}
