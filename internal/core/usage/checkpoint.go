// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/runs"
)

// CheckpointVersion is the format of checkpoints that upstream and podfit share.
const CheckpointVersion = "v3"

// A Checkpoint is the stored form of a ContainerHistory: the status of a VerticalPodAutoscalerCheckpoint, and data that the
// status has no field for. Upstream reads and writes the same status, so users can switch back and forth.
//
// As in upstream, the times and number of samples are those of CPU, and the memory histogram does not contain the
// peaks of current windows. Extra has the counts of memory and these windows.
type Checkpoint struct {
	Workload    cluster.Workload // zero if unknown, as in checkpoints that upstream wrote
	Profile     string           // SizingProfile that sized the VPA when podfit wrote the checkpoint; empty: a built-in one, or unknown
	Node        string           // the smallest node that sizing holds (sizing.Workloads.HeldNodes); empty: none
	Updated     time.Time        // whole seconds, as it is stored
	Version     string
	CPU         histogram.Checkpoint
	Memory      histogram.Checkpoint
	FirstSample time.Time
	LastSample  time.Time
	Samples     int
	Extra       []byte // valid only together with a status of the same Updated
	Changes     *changelog.Log
	Runs        []byte // of runs.Log.Encode

	// Model state of the extension, if there is one. It is stored in another object, or in Extra (Carry).
	History History

	version uint32 // of the ContainerHistory, for Saved
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

// ErrExtra is returned if a checkpoint was restored without its Extra, which is invalid.
var ErrExtra = errors.New("invalid extra data of the checkpoint")

// Checkpoint returns the checkpoint of a container. It is not ok if the container has neither samples nor measured runs.
func (b *Store) Checkpoint(workload cluster.Workload, container string, now time.Time) (checkpoint Checkpoint, ok bool) {
	series := b.Series(workload, container)
	if series == nil || series.lastSeen() == 0 && !slices.ContainsFunc(series.runs.All(), func(r runs.Run) bool { return r.Memory > 0 }) {
		return Checkpoint{}, false
	}
	now = now.UTC().Truncate(time.Second)
	memory, windows := withoutWindows(series, now.UnixNano())
	checkpoint = Checkpoint{
		Workload:    workload,
		Updated:     now,
		Version:     CheckpointVersion,
		CPU:         series.CPU.Checkpoint(),
		Memory:      memory.Checkpoint(),
		FirstSample: stamp(series.cpu.first),
		LastSample:  stamp(series.cpu.last),
		Samples:     int(series.cpu.count),
		Changes:     series.changes,
		Runs:        series.runs.Encode(),
		version:     series.version,
	}
	checkpoint.Extra = extra{
		updated:  now.Unix(),
		memory:   series.memory,
		oomAt:    series.kill.at,
		oomBytes: series.kill.needed,
		windows:  windows,
		starts:   series.starts,
	}.encode()
	checkpoint.History, _ = series.history(now)
	return checkpoint, true
}

// Saved records that a checkpoint has been stored.
func (b *Store) Saved(w cluster.Workload, container string, c Checkpoint) {
	if s := b.Series(w, container); s != nil {
		s.saved = c.version
		s.savedAt = c.Updated.UnixNano()
	}
}

// Pending returns the containers of workloads with an autoscaler that were last saved at or before a time and have
// changed since. The one saved longest ago comes first.
func (b *Store) Pending(savedBy time.Time) []Ref {
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
	return cluster.Each(pending, func(d *due) Ref { return d.Ref })
}

// Restore merges a checkpoint into the ContainerHistory of a container. Call it once per container, after Tick, Configure and Extend, and if
// possible before the first sample. Of the model state in Extra and in History, the newer one is restored. On an error nothing is
// restored, unless it is ErrExtra or ErrHistory: then the rest is.
func (b *Store) Restore(w cluster.Workload, container string, checkpoint Checkpoint) error {
	cpu, memory, counts, err := b.load(w, container, checkpoint)
	if err != nil {
		return fmt.Errorf("restore container %s of %s: %w", container, w, err)
	}
	series := b.series(b.workload(w), container)
	rest, err := decodeExtra(checkpoint.Extra)
	if err != nil {
		err = fmt.Errorf("restore container %s of %s: %w: %w", container, w, ErrExtra, err)
	}
	carried := rest.history()
	starts := rest.starts // those of a checkpoint that upstream has overwritten are as good
	if err != nil || rest.updated != checkpoint.Updated.Unix() {
		// Upstream has written the checkpoint since, or there is no Extra: use the counts of CPU for memory. Do so for an
		// empty memory histogram, too: on the first day all peaks belong to current windows, which it does not contain.
		rest = extra{memory: counts}
	}
	rest.memory.present(&b.clock)
	rest.oomAt = b.present(rest.oomAt)
	if mergeErr := series.join(&cpu, &memory); mergeErr != nil {
		return fmt.Errorf("restore container %s of %s: %w", container, w, mergeErr)
	}
	series.alignCPU = series.cpu.count == 0
	series.alignMemory = series.memory.count == 0 && series.kill.at == 0
	series.cpu.merge(counts)
	series.memory.merge(rest.memory)
	if rest.oomAt > series.kill.at {
		series.kill.at = rest.oomAt
		series.kill.needed = rest.oomBytes
	}
	series.adopt(&b.clock, rest, checkpoint.Updated.UnixNano())
	if series.load.starts {
		series.starts = series.starts.Merge(starts, stamp(b.now))
	}
	if series.changes == nil {
		series.changes = checkpoint.Changes.Until(stamp(b.now))
	}
	if stored, err := runs.Decode(checkpoint.Runs); err == nil && (series.load.runs || stored.IsInit() && b.cfg.InitRuns) { // invalid ones count as none
		if series.instances == nil {
			series.load.setInit(series, stored.IsInit())
		}
		series.runs = series.runs.Merge(stored.Present(stamp(b.now)))
	}
	series.loaded = true
	series.savedAt = b.present(checkpoint.Updated.UnixNano())
	return errors.Join(err, series.recall(checkpoint.History, &b.clock), series.recall(carried, &b.clock))
}

// join merges the histograms of another history. On an error it changes none.
func (s *ContainerHistory) join(cpu, memory *histogram.Histogram) error {
	joinedCPU, err := joined(&s.CPU, cpu)
	if err != nil {
		return fmt.Errorf("cpu histogram: %w", err)
	}
	joinedMemory, err := joined(&s.Memory, memory)
	if err != nil {
		return fmt.Errorf("memory histogram: %w", err)
	}
	s.CPU = joinedCPU
	s.Memory = joinedMemory
	return nil
}

// joined returns the sum of two histograms, of which it changes none. A histogram without samples takes the options of the other one.
func joined(a, b *histogram.Histogram) (histogram.Histogram, error) {
	if a.Total() == 0 {
		return *b, nil
	}
	sum := a.Clone()
	err := sum.Merge(b)
	return sum, err
}

// anyLead marks a time that may be in the future without limit. It is moved to the present.
const anyLead = time.Duration(-1)

func (b *Store) load(w cluster.Workload, container string, checkpoint Checkpoint) (cpu, memory histogram.Histogram, samples seen, err error) {
	rules := &b.rules
	if s := b.Series(w, container); s != nil {
		if s.loaded {
			return cpu, memory, samples, errors.New("a checkpoint of this container was already restored")
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
		return cpu, memory, samples, fmt.Errorf("number of samples must not be negative, got %d", checkpoint.Samples)
	}
	if int64(checkpoint.Samples) > maxCount {
		return cpu, memory, samples, fmt.Errorf("number of samples must be at most %d, got %d", int64(maxCount), checkpoint.Samples)
	}
	samples.count = int64(checkpoint.Samples)
	for _, stored := range []struct {
		name  string
		value time.Time
		to    *int64
		ahead time.Duration // the most it may be in the future without distorting weights
	}{
		{"last update", checkpoint.Updated, new(int64), anyLead},
		{"first sample", checkpoint.FirstSample, &samples.first, anyLead},
		{"last sample", checkpoint.LastSample, &samples.last, anyLead},
		{"reference of the cpu histogram", checkpoint.CPU.Reference, new(int64), MaxAhead + 2*b.cfg.CPUHalfLife},
		{"reference of the memory histogram", checkpoint.Memory.Reference, new(int64), MaxAhead + 2*b.cfg.MemoryHalfLife + 2*rules.interval},
	} {
		if stored.value.IsZero() {
			continue
		}
		at, ok := nanos(stored.value)
		if !ok {
			return cpu, memory, samples, fmt.Errorf("time of the %s must be between 1970 and 2200, got %v", stored.name, stored.value)
		}
		if stored.ahead != anyLead && b.now != 0 && at > b.now+int64(stored.ahead) {
			return cpu, memory, samples, fmt.Errorf("time of the %s is in the future: %v", stored.name, stored.value)
		}
		*stored.to = at
	}
	if samples.first > samples.last {
		return cpu, memory, samples, fmt.Errorf("first sample %v is later than last sample %v", checkpoint.FirstSample, checkpoint.LastSample)
	}
	samples.present(&b.clock)
	return cpu, memory, samples, nil
}
