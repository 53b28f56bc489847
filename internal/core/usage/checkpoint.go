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
func (b *Book) Checkpoint(w cluster.Workload, container string, now time.Time) (checkpoint Checkpoint, ok bool) {
	series := b.Series(w, container)
	if series == nil || series.lastSeen() == 0 {
		return Checkpoint{}, false
	}
	now = now.UTC().Truncate(time.Second)
	memory := series.Memory.Clone()
	windows := series.windows(now.UnixNano())
	for _, r := range windows {
		if p := r.peak(); p > 0 && now.UnixNano() < r.windowEnd {
			memory.SubtractNanos(float64(p), 1, r.windowEnd)
		}
	}
	checkpoint = Checkpoint{
		Workload:    w,
		Updated:     now,
		Version:     CheckpointVersion,
		CPU:         series.CPU.Checkpoint(),
		Memory:      memory.Checkpoint(),
		FirstSample: stamp(series.cpu.first),
		LastSample:  stamp(series.cpu.last),
		Samples:     int(series.cpu.count),
		version:     series.version,
	}
	checkpoint.Extra = extra{
		updated:  now.Unix(),
		memory:   series.memory,
		oomAt:    series.oomAt,
		oomBytes: series.oomBytes,
		windows:  windows,
	}.encode()
	checkpoint.History, _ = series.history(now)
	return checkpoint, true
}

// Saved says that a checkpoint has been stored.
func (b *Book) Saved(w cluster.Workload, container string, c Checkpoint) {
	if s := b.Series(w, container); s != nil {
		s.saved = c.version
		s.savedAt = c.Updated.UnixNano()
	}
}

// Pending returns the containers of workloads under an autoscaler that have changed since they were last saved,
// if that was at or before a time. The one saved longest ago comes first.
func (b *Book) Pending(savedBy time.Time) []Ref {
	type due struct {
		Ref
		at int64
	}
	var pending []due
	by := savedBy.UnixNano()
	for key, wl := range b.workloads {
		if !wl.governed {
			continue
		}
		for _, s := range wl.series {
			if s.version != s.saved && s.savedAt <= by {
				pending = append(pending, due{Ref{key, s.container}, s.savedAt})
			}
		}
	}
	slices.SortFunc(pending, func(x, y due) int { return cmp.Or(cmp.Compare(x.at, y.at), x.Compare(y.Ref)) })
	refs := make([]Ref, len(pending))
	for i := range pending {
		refs[i] = pending[i].Ref
	}
	return refs
}

// Restore adds what a checkpoint holds to the history of a container. Do it once for each: after Tick, after
// Configure and Extend, and before the first sample where that is possible. What the extension remembered is the newer of
// what the checkpoint carries and its History. On an error nothing was restored, except with ErrExtra and ErrHistory.
func (b *Book) Restore(w cluster.Workload, container string, checkpoint Checkpoint) error {
	cpu, memory, counts, err := b.load(w, container, checkpoint)
	if err != nil {
		return fmt.Errorf("restore %s of %s: %w", container, w, err)
	}
	series := b.series(b.workload(w), container)
	rest, err := decodeExtra(checkpoint.Extra)
	if err != nil {
		err = fmt.Errorf("restore %s of %s: %w: %w", container, w, ErrExtra, err)
	}
	carried := rest.history()
	if err != nil || rest.updated != checkpoint.Updated.Unix() {
		// Upstream has written the checkpoint since, or there never was an Extra: memory is as old as CPU. That holds for
		// an empty histogram, too: peaks of windows under way are left out, and on the first day there are no others.
		rest = extra{memory: counts}
	}
	rest.memory.present(b)
	rest.oomAt = b.present(rest.oomAt)
	join(&series.CPU, &cpu)
	join(&series.Memory, &memory)
	series.alignCPU = series.cpu.count == 0
	series.alignMemory = series.memory.count == 0 && series.oomAt == 0
	series.cpu.merge(counts)
	series.memory.merge(rest.memory)
	if rest.oomAt > series.oomAt {
		series.oomAt = rest.oomAt
		series.oomBytes = rest.oomBytes
	}
	series.adopt(b, rest, checkpoint.Updated.UnixNano())
	series.loaded = true
	series.savedAt = b.present(checkpoint.Updated.UnixNano())
	return errors.Join(err, b.recall(series, checkpoint.History), b.recall(series, carried))
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
func (b *Book) load(w cluster.Workload, container string, checkpoint Checkpoint) (cpu, memory histogram.Histogram, samples seen, err error) {
	rules := &b.rules
	if s := b.Series(w, container); s != nil {
		if s.loaded {
			return cpu, memory, samples, errors.New("a checkpoint has been restored already")
		}
		rules = s.rules
	}
	if checkpoint.Version != CheckpointVersion {
		return cpu, memory, samples, fmt.Errorf("unsupported checkpoint version %q", checkpoint.Version)
	}
	if last, ok := nanos(checkpoint.LastSample); ok {
		lead := b.lead(last)
		checkpoint.CPU.Reference = older(checkpoint.CPU.Reference, lead, b.cfg.CPUHalfLife)
		checkpoint.Memory.Reference = older(checkpoint.Memory.Reference, lead, b.cfg.MemoryHalfLife)
	}
	cpu, err = histogram.Load(histogram.CPU, b.cfg.CPUHalfLife, checkpoint.CPU)
	if err != nil {
		return cpu, memory, samples, fmt.Errorf("cpu histogram: %w", err)
	}
	memory, err = histogram.Load(histogram.Memory, b.cfg.MemoryHalfLife, checkpoint.Memory)
	if err != nil {
		return cpu, memory, samples, fmt.Errorf("memory histogram: %w", err)
	}
	if checkpoint.Samples < 0 {
		return cpu, memory, samples, fmt.Errorf("number of samples %d is negative", checkpoint.Samples)
	}
	if checkpoint.Samples > maxCount {
		return cpu, memory, samples, fmt.Errorf("number of samples %d is more than there can be", checkpoint.Samples)
	}
	samples.count = int64(checkpoint.Samples)
	for _, stored := range []struct {
		name  string
		value time.Time
		to    *int64
		ahead time.Duration // how far it may lie ahead of the present without distorting weights
	}{
		{"last update", checkpoint.Updated, new(int64), anyLead},
		{"first sample", checkpoint.FirstSample, &samples.first, anyLead},
		{"last sample", checkpoint.LastSample, &samples.last, anyLead},
		{"reference of the cpu histogram", checkpoint.CPU.Reference, new(int64), b.cfg.MaxAhead + 2*b.cfg.CPUHalfLife},
		{"reference of the memory histogram", checkpoint.Memory.Reference, new(int64), b.cfg.MaxAhead + 2*b.cfg.MemoryHalfLife + 2*rules.interval},
	} {
		if stored.value.IsZero() {
			continue
		}
		at, ok := nanos(stored.value)
		if !ok {
			return cpu, memory, samples, fmt.Errorf("time of the %s %v is out of range", stored.name, stored.value)
		}
		if stored.ahead != anyLead && b.now != 0 && at > b.now+int64(stored.ahead) {
			return cpu, memory, samples, fmt.Errorf("time of the %s %v lies in the future", stored.name, stored.value)
		}
		*stored.to = at
	}
	if samples.first > samples.last {
		return cpu, memory, samples, fmt.Errorf("first sample %v is later than last sample %v", checkpoint.FirstSample, checkpoint.LastSample)
	}
	samples.present(b)
	return cpu, memory, samples, nil
}
