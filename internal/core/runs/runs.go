// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package runs keeps what a container that runs to its end used in each of its last runs: one of a Job or CronJob, or an init container. A run is
// one pod. It is stored with the checkpoint of the container, in at most 900 bytes.
package runs

import (
	"cmp"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
)

const (
	// Most is the largest number of runs that are kept.
	Most = 30
	// Least is the smallest number of measured runs that size a container.
	Least = 3
	// silent is the time without a sample after which a run counts as ended, in seconds: its end may not have been observed.
	silent = 600
)

// A Run is what a container used in one pod.
type Run struct {
	Pod     uint64 // a hash of its name
	Started int64  // Unix seconds; the first observation if the start is not known
	Last    int64  // Unix seconds of the last observation, which is the end of a run that has ended
	Ended   bool
	peak    bool  // Memory is that of Peak; not stored
	read    int64 // Unix seconds of the last Read, if CPU is that of Read; 0 otherwise; not stored
	CPU     int64 // the highest sample, in millicores; 0 if there was none
	Memory  int64 // the highest sample, or more after an OOM kill, in bytes; 0 if there was none
}

// Used returns the highest usage of a resource, in millicores or bytes; 0 if it was not measured.
func (r *Run) Used(res cluster.Resource) int64 { return cluster.Pick(res, r.CPU, r.Memory) }

// Length returns how long the run took, or has taken so far.
func (r *Run) Length() time.Duration { return time.Duration(r.Last-r.Started) * time.Second }

// A Log has the last runs, in any order. Nil is an empty log.
type Log struct {
	runs []Run
	init bool
}

// OfInit returns an empty log of an ordinary init container.
func OfInit() *Log { return &Log{init: true} }

// IsInit reports whether the container is an ordinary init container.
func (l *Log) IsInit() bool { return l != nil && l.init }

// All returns the runs. The slice belongs to the log.
func (l *Log) All() []Run {
	if l == nil {
		return nil
	}
	return l.runs
}

// Of returns the run of a pod, to be updated, and adds it if it is new. It started, or was first observed, at a time in Unix seconds. If the log is
// full, the oldest run that has ended without a sample is removed, or else the oldest run that has ended. Of returns nil if no run can be removed:
// none has ended, the new run is older, or only half of the log still has runs with samples that have ended. over is true if the new run has
// already ended: it will have no sample, so no run with samples is removed for it.
func (l *Log) Of(pod uint64, at int64, over bool) *Run {
	oldest, measured := -1, 0
	for i := range l.runs {
		if l.runs[i].IsOver(at) && l.runs[i].isMeasured() {
			measured++
		}
		switch r := &l.runs[i]; {
		case r.Pod == pod:
			return r
		case !r.IsOver(at) || over && r.isMeasured():
		case oldest < 0 || r.isMeasured() != l.runs[oldest].isMeasured() && !r.isMeasured() ||
			r.isMeasured() == l.runs[oldest].isMeasured() && r.Started < l.runs[oldest].Started:
			oldest = i
		}
	}
	added := Run{Pod: pod, Started: at, Last: at}
	switch {
	case len(l.runs) < Most:
		l.runs = append(l.runs, added)
		return &l.runs[len(l.runs)-1]
	case oldest < 0 || at <= l.runs[oldest].Started || l.runs[oldest].isMeasured() && measured <= Most/2:
		return nil
	}
	l.runs[oldest] = added
	return &l.runs[oldest]
}

// Observe adds usage at a time, in Unix seconds: millicores and bytes, 0 for none.
func (r *Run) Observe(at, millicores, bytes int64) {
	if r.peak && bytes > 0 {
		r.Memory, r.peak = 0, false
	}
	if r.read > 0 && millicores > 0 {
		r.CPU, r.read = 0, 0
	}
	r.CPU = max(r.CPU, millicores)
	r.Memory = max(r.Memory, bytes)
	r.Last = max(r.Last, at)
}

// Read adds a reading of a kubelet at a time, in Unix seconds: the mean CPU since the start in millicores, 0 if it is not known, and memory in bytes.
// The last mean counts, as long as there is no sample. The same reading again does not count.
func (r *Run) Read(at, millicores, bytes int64) {
	if at == r.read {
		return
	}
	isMean := r.read > 0 || r.CPU == 0
	r.Observe(at, 0, bytes)
	if isMean {
		r.read = at
		r.CPU = cmp.Or(millicores, r.CPU)
	}
}

// Peak adds the memory that was in use at some time of the run, in bytes, as the kernel counts it: with the page cache. It counts only for a run of which
// no sample was taken.
func (r *Run) Peak(bytes int64) {
	if r.Memory == 0 {
		r.Memory = bytes
		r.peak = true
	}
}

// Bound records the start and the end, in Unix seconds; 0 for one that is not known. After a restart in the same pod, the
// first start counts.
func (r *Run) Bound(started, ended int64) {
	if started > 0 {
		r.Started = min(r.Started, started)
	}
	r.Last = max(r.Last, ended, r.Started)
	r.Ended = ended > 0
}

func (r *Run) isMeasured() bool { return r.CPU > 0 || r.Memory > 0 }

// IsOver reports whether the run has ended by a time in Unix seconds. Its end may not have been observed.
func (r *Run) IsOver(now int64) bool { return r.Ended || now-r.Last > silent }

// Percentile returns the highest usage that a share of the runs which have ended did not exceed, and the number of these runs in which the resource
// was measured. It is 0 if there are none.
func (l *Log) Percentile(res cluster.Resource, share float64, now time.Time) (used int64, n int) {
	var all []int64
	for _, r := range l.All() {
		if v := r.Used(res); v > 0 && r.IsOver(now.Unix()) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	rank := int(math.Ceil(share*float64(len(all)) - 1e-9))
	return all[min(max(rank, 1), len(all))-1], len(all)
}

// Merge returns the runs of both logs. A run that is in both has the higher values.
func (l *Log) Merge(o *Log) *Log {
	if len(o.All()) == 0 {
		return l
	}
	out := &Log{runs: slices.Clone(l.All()), init: l.IsInit() || l == nil && o.init}
	for _, r := range o.runs {
		i := slices.IndexFunc(out.runs, func(known Run) bool { return known.Pod == r.Pod })
		if i < 0 {
			out.runs = append(out.runs, r)
			continue
		}
		known := &out.runs[i]
		if r.peak { // the time of a peak is not that of the run
			known.Peak(r.Memory)
			known.CPU = max(known.CPU, r.CPU)
		} else {
			known.Observe(r.Last, r.CPU, r.Memory)
		}
		known.Started = min(known.Started, r.Started)
		known.Ended = known.Ended || r.Ended
	}
	out.sort()
	return out
}

// Present returns the log with no time after now: a clock that was ahead may have written it.
func (l *Log) Present(now time.Time) *Log {
	for i := range l.All() {
		r := &l.runs[i]
		r.Started = min(r.Started, now.Unix())
		r.Last = min(r.Last, now.Unix())
	}
	return l
}

// sort sorts the runs by their start. If there are too many, it removes those that have ended without a sample, and then the oldest.
func (l *Log) sort() {
	slices.SortFunc(l.runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Pod, b.Pod)) })
	for i := 0; len(l.runs) > Most && i < len(l.runs); {
		if l.runs[i].Ended && !l.runs[i].isMeasured() {
			l.runs = slices.Delete(l.runs, i, i+1)
			continue
		}
		i++
	}
	l.runs = slices.Delete(l.runs, 0, max(0, len(l.runs)-Most))
}

const maxAmount = 1e14

// Encode returns the stored form of a log, nil if it is empty.
func (l *Log) Encode() []byte {
	if len(l.All()) == 0 {
		return nil
	}
	sorted := &Log{runs: slices.Clone(l.runs), init: l.init}
	sorted.sort()
	c := codec.NewEncoder(nil)
	sorted.Code(c)
	return c.Data()
}

// Decode returns a log from its stored form; nil for none.
func Decode(data []byte) (*Log, error) { return codec.Decode[Log](data, "runs of a container") }

// Code implements codec.State.
func (l *Log) Code(c *codec.Coder) {
	// Version 1 is of a Job or CronJob, as before init containers had runs.
	version := byte(1)
	if l.init {
		version = 2
	}
	l.init = c.Version(version, 1, 2) == 2
	codec.Length(c, "number of runs", &l.runs, Most)
	for i := range l.runs {
		r := &l.runs[i]
		c.Uint64("pod of a run", &r.Pod)
		codec.Uvarint(c, "start of a run", &r.Started, codec.MaxSecond)
		length := r.Last - r.Started
		codec.Uvarint(c, "length of a run", &length, codec.MaxSecond)
		r.Last = r.Started + length
		c.Flags("flags of a run", &r.Ended)
		codec.Uvarint(c, "CPU of a run", &r.CPU, maxAmount)
		codec.Uvarint(c, "memory of a run", &r.Memory, maxAmount)
	}
}
