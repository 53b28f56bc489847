// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
)

// CheckpointVersion is the format of checkpoints that upstream and podfit share.
const CheckpointVersion = "v3"

// A Checkpoint is a Series as it is stored: the status of a VerticalPodAutoscalerCheckpoint, and beside it what
// that has no room for. Upstream reads and writes the status, so one may go there and back.
//
// As upstream has it, first and last sample and their number are those of CPU, and the peaks of windows still
// under way are left out of the memory histogram. Extra has the memory's own counts and those windows.
type Checkpoint struct {
	Workload    cluster.Workload // whose history it is; zero where that is not known, as of upstream's checkpoints
	Updated     time.Time        // whole seconds, as it is stored
	Version     string
	CPU         histogram.Checkpoint
	Memory      histogram.Checkpoint
	FirstSample time.Time
	LastSample  time.Time
	Samples     int
	Extra       []byte // valid only together with a status of the same Updated

	// What the extension of the Series remembers, if there is one. It stands by itself and is stored elsewhere, or with
	// Carry in Extra.
	History History

	version uint32 // what of the Series it holds, for Saved
}

// A Ref names a container of a workload.
type Ref struct {
	Workload  cluster.Workload
	Container string
}

// Compare orders by workload, then container.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(r.Workload.Compare(o.Workload), cmp.Compare(r.Container, o.Container))
}

// ErrExtra is returned when a checkpoint was restored, but for its Extra, which makes no sense.
var ErrExtra = errors.New("extra part of the checkpoint is unusable")

// Checkpoint returns what to store of a container. It is not ok when nothing is known of it.
func (b *Book) Checkpoint(w cluster.Workload, container string, now time.Time) (c Checkpoint, ok bool) {
	s := b.Series(w, container)
	if s == nil || s.lastSeen() == 0 {
		return Checkpoint{}, false
	}
	now = now.UTC().Truncate(time.Second)
	memory := s.Memory.Clone()
	windows := s.windows(now.UnixNano())
	for _, r := range windows {
		if p := r.peak(); p > 0 && now.UnixNano() < r.windowEnd {
			memory.SubtractNanos(float64(p), 1, r.windowEnd)
		}
	}
	c = Checkpoint{
		Workload:    w,
		Updated:     now,
		Version:     CheckpointVersion,
		CPU:         s.CPU.Checkpoint(),
		Memory:      memory.Checkpoint(),
		FirstSample: stamp(s.cpu.first),
		LastSample:  stamp(s.cpu.last),
		Samples:     int(s.cpu.count),
		version:     s.version,
	}
	c.Extra = extra{
		updated:  now.Unix(),
		memory:   s.memory,
		oomAt:    s.oomAt,
		oomBytes: s.oomBytes,
		windows:  windows,
	}.encode()
	c.History, _ = s.history(now)
	return c, true
}

// Saved says that a checkpoint has been stored.
func (b *Book) Saved(w cluster.Workload, container string, c Checkpoint) {
	if s := b.Series(w, container); s != nil {
		s.saved, s.savedAt = c.version, c.Updated.UnixNano()
	}
}

// Pending returns the containers of workloads under an autoscaler that have changed since they were last saved,
// if that was at or before a time. The one saved longest ago comes first.
func (b *Book) Pending(savedBy time.Time) []Ref {
	type due struct {
		Ref
		at int64
	}
	var ds []due
	by := savedBy.UnixNano()
	for key, wl := range b.workloads {
		if !wl.governed {
			continue
		}
		for _, s := range wl.series {
			if s.version != s.saved && s.savedAt <= by {
				ds = append(ds, due{Ref{key, s.container}, s.savedAt})
			}
		}
	}
	slices.SortFunc(ds, func(x, y due) int { return cmp.Or(cmp.Compare(x.at, y.at), x.Compare(y.Ref)) })
	refs := make([]Ref, len(ds))
	for i := range ds {
		refs[i] = ds[i].Ref
	}
	return refs
}

// Restore adds what a checkpoint holds to the history of a container. Do it once for each: after Tick, after
// Configure and Extend, and before the first sample where that is possible. What the extension remembered is the newer of
// what the checkpoint carries and its History. On an error nothing was restored, except with ErrExtra and ErrHistory.
func (b *Book) Restore(w cluster.Workload, container string, c Checkpoint) error {
	cpu, memory, counts, err := b.load(w, container, c)
	if err != nil {
		return fmt.Errorf("restore %s of %s: %w", container, w, err)
	}
	s := b.series(b.workload(w), container)
	x, err := decodeExtra(c.Extra)
	if err != nil {
		err = fmt.Errorf("restore %s of %s: %w: %w", container, w, ErrExtra, err)
	}
	carried := x.history()
	if err != nil || x.updated != c.Updated.Unix() {
		// Upstream has written the checkpoint since, or there never was an Extra: memory is as old as CPU. That holds for
		// an empty histogram, too: peaks of windows under way are left out, and on the first day there are no others.
		x = extra{memory: counts}
	}
	x.memory.present(b)
	x.oomAt = b.present(x.oomAt)
	join(&s.CPU, &cpu)
	join(&s.Memory, &memory)
	s.alignCPU, s.alignMemory = s.cpu.count == 0, s.memory.count == 0 && s.oomAt == 0
	s.cpu.merge(counts)
	s.memory.merge(x.memory)
	if x.oomAt > s.oomAt {
		s.oomAt, s.oomBytes = x.oomAt, x.oomBytes
	}
	s.adopt(b, x, c.Updated.UnixNano())
	s.loaded, s.savedAt = true, b.present(c.Updated.UnixNano())
	return errors.Join(err, b.recall(s, c.History), b.recall(s, carried))
}

// join adds a histogram that has just been loaded to that of a Series.
func join(to, loaded *histogram.Histogram) {
	if to.Total() == 0 {
		*to = *loaded
	} else if err := to.Merge(loaded); err != nil {
		panic(err) // both were made with the Book's options
	}
}

// anyLead says of a time that it may lie in the future: it is drawn to the present.
const anyLead = time.Duration(-1)

// load checks a checkpoint and returns its parts.
func (b *Book) load(w cluster.Workload, container string, c Checkpoint) (cpu, memory histogram.Histogram, n seen, err error) {
	r := &b.rules
	if s := b.Series(w, container); s != nil {
		if s.loaded {
			return cpu, memory, n, errors.New("a checkpoint has been restored already")
		}
		r = s.rules
	}
	if c.Version != CheckpointVersion {
		return cpu, memory, n, fmt.Errorf("unsupported checkpoint version %q", c.Version)
	}
	if last, ok := nanos(c.LastSample); ok {
		lead := b.lead(last)
		c.CPU.Reference = older(c.CPU.Reference, lead, b.cfg.CPUHalfLife)
		c.Memory.Reference = older(c.Memory.Reference, lead, b.cfg.MemoryHalfLife)
	}
	if cpu, err = histogram.Load(histogram.CPU, b.cfg.CPUHalfLife, c.CPU); err != nil {
		return cpu, memory, n, fmt.Errorf("cpu histogram: %w", err)
	}
	if memory, err = histogram.Load(histogram.Memory, b.cfg.MemoryHalfLife, c.Memory); err != nil {
		return cpu, memory, n, fmt.Errorf("memory histogram: %w", err)
	}
	if c.Samples < 0 {
		return cpu, memory, n, fmt.Errorf("number of samples %d is negative", c.Samples)
	}
	if c.Samples > maxCount {
		return cpu, memory, n, fmt.Errorf("number of samples %d is more than there can be", c.Samples)
	}
	n.count = int64(c.Samples)
	for _, t := range []struct {
		name  string
		value time.Time
		to    *int64
		ahead time.Duration // how far it may lie ahead of the present without distorting weights
	}{
		{"last update", c.Updated, new(int64), anyLead},
		{"first sample", c.FirstSample, &n.first, anyLead},
		{"last sample", c.LastSample, &n.last, anyLead},
		{"reference of the cpu histogram", c.CPU.Reference, new(int64), b.cfg.MaxAhead + 2*b.cfg.CPUHalfLife},
		{"reference of the memory histogram", c.Memory.Reference, new(int64), b.cfg.MaxAhead + 2*b.cfg.MemoryHalfLife + 2*r.interval},
	} {
		if t.value.IsZero() {
			continue
		}
		at, ok := nanos(t.value)
		if !ok {
			return cpu, memory, n, fmt.Errorf("time of the %s %v is out of range", t.name, t.value)
		}
		if t.ahead != anyLead && b.now != 0 && at > b.now+int64(t.ahead) {
			return cpu, memory, n, fmt.Errorf("time of the %s %v lies in the future", t.name, t.value)
		}
		*t.to = at
	}
	if n.first > n.last {
		return cpu, memory, n, fmt.Errorf("first sample %v is later than last sample %v", c.FirstSample, c.LastSample)
	}
	n.present(b)
	return cpu, memory, n, nil
}
