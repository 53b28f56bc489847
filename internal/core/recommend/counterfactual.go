// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/trend"
	"podfit.dev/podfit/internal/core/usage"
)

// PeaksOf returns the hourly peaks of a resource in the model state of a container, in cores or bytes; nil if it has none. They belong to
// the model state: do not change them. Usage near the limit of the container was multiplied by a factor before it was stored, see
// LeastUsage.
func PeaksOf(s *usage.ContainerHistory, r cluster.Resource) *hourly.Peaks {
	state, ok := s.Extension().(interface {
		Peaks(r cluster.Resource) *hourly.Peaks
	})
	if !ok {
		return nil
	}
	peaks := state.Peaks(r)
	if peaks == nil || peaks.Empty() {
		return nil
	}
	return peaks
}

// Peaks returns the hourly peaks of a resource.
func (m *Memo) Peaks(r cluster.Resource) *hourly.Peaks { return cluster.Pick(r, &m.CPU, &m.Memory) }

// Peaks returns the hourly peaks of memory, nil for CPU: those that are kept are only of the last hours.
func (m *Busy) Peaks(r cluster.Resource) *hourly.Peaks { return cluster.Pick(r, nil, &m.Memory) }

// memoOf returns the Memo in model state, nil if there is none.
func memoOf(e usage.Extension) *Memo {
	switch m := e.(type) {
	case *Memo:
		return m
	case *Busy:
		return &m.Memo
	}
	return nil
}

// LeakOf reports whether the memory of a container looked like it leaks at the last check, which is once a day, and when it
// will reach a bound in bytes (0: none). Only profiles that size memory by Adaptive check for leaks.
func LeakOf(s *usage.ContainerHistory, bound float64, now time.Time) (trend.Suspicion, bool) {
	if m := memoOf(s.Extension()); m != nil {
		return m.leak.Suspicion(bound, now)
	}
	return trend.Suspicion{}, false
}

// LeastUsage returns the least memory, in bytes, that a container may have used if this level was stored as its peak.
func LeastUsage(level hourly.Level) float64 {
	if level <= 1 {
		return 0
	}
	return (level - 1).Amount() / cutMemory
}

// Anew returns the history as a profile would have it that is selected now, with all decisions made anew at the newest sample: nothing waits
// because of an earlier decision. Learnt margins are kept, as they are when the profile of a workload changes. The requests are those outside
// of low hours. It also returns the resources that the history is enough for. The history does not change.
//
// The histograms are enough for Default. Adaptive needs hourly peaks, which the profiles with Adaptive or BusyHours have.
func Anew(s *usage.ContainerHistory, p Profile) (*usage.ContainerHistory, cluster.Set) {
	if p.Extend == nil {
		return s.With(nil), measured(s)
	}
	next := p.Extend()
	known := carryOver(s.Extension(), next)
	switch m := next.(type) {
	case *Memo:
		m.decideAnew(true)
	case *Busy:
		m.decideAnew()
	}
	return s.With(next), known & measured(s)
}

// AnewWithout is Anew without the peaks of a resource in the time from a time on, before another. It also drops a request that was raised in
// that time. It knows only resources with hourly peaks.
func AnewWithout(s *usage.ContainerHistory, p Profile, r cluster.Resource, from, before time.Time) (*usage.ContainerHistory, cluster.Set) {
	if p.Extend == nil || PeaksOf(s, r) == nil {
		return s, 0
	}
	next := p.Extend()
	known := carryOver(s.Extension(), next) & cluster.Of(r)
	memo := memoOf(next)
	if memo == nil {
		return s, 0
	}
	peaks := memo.Peaks(r)
	request := cluster.Pick(r, &memo.cpu, &memo.memory)
	hold := cluster.Pick(r, 0, memo.p.Memory.Hold)
	first := int(from.Unix() / 3600)
	end := int(before.Unix() / 3600)
	*peaks = peaks.Without(first, end)
	if peaks.Max(0, peaks.Newest()+1) == 0 {
		return s, 0 // nothing is left
	}
	if at := unix(request.bumped).Add(-hold); !at.Before(from) && at.Before(before) {
		request.bumped = 0
	}
	_, adaptiveCPU := next.(*Memo)
	memo.decideAnew(adaptiveCPU)
	return s.With(next), known
}

func measured(s *usage.ContainerHistory) cluster.Set {
	var known cluster.Set
	if !s.CPU.IsEmpty() {
		known = known.With(cluster.CPU)
	}
	if !s.Memory.IsEmpty() {
		known = known.With(cluster.Memory)
	}
	return known
}

// carryOver copies model state to an empty extension, and returns the resources for which it can be used.
func carryOver(from, to usage.Extension) cluster.Set {
	if _, weighted := to.(byRequest); weighted {
		if _, alike := from.(byRequest); alike {
			return cluster.Both
		}
		return 0 // the samples in the histograms have other weights
	}
	if from != nil && to.Form() != "" && from.Form() == to.Form() {
		return copied(from, to, cluster.Both)
	}
	source := memoOf(from)
	target := memoOf(to)
	if source == nil || target == nil {
		return 0
	}
	return copiedMemory(source, target)
}

// copied copies stored model state, and returns the resources if it could be read.
func copied(from, to usage.Extension, known cluster.Set) cluster.Set {
	data, err := from.AppendBinary(nil)
	if err != nil || to.UnmarshalBinary(data) != nil {
		return 0
	}
	return known
}

// copiedMemory copies the stored model state of memory to an empty Memo. That of CPU has another meaning in BusyHours than in Adaptive.
func copiedMemory(from, to *Memo) cluster.Set {
	empty := *to
	known := copied(from, to, cluster.Of(cluster.Memory))
	to.CPU = empty.CPU
	to.cpu = empty.cpu
	to.cpuChoice = empty.cpuChoice
	to.shortfall = empty.shortfall
	return known
}

// OutsideLowHours returns the history with the requests that apply outside of low hours. The history does not change.
func OutsideLowHours(s *usage.ContainerHistory) *usage.ContainerHistory {
	switch m := s.Extension().(type) {
	case *Memo:
		copied := *m
		copied.leaveLowHours()
		return s.With(&copied)
	case *Busy:
		copied := *m
		copied.leaveLowHours()
		return s.With(&copied)
	}
	return s
}

func (m *Memo) leaveLowHours() {
	m.cpu.inLow = false
	m.memory.inLow = false
}

// decideAnew decides the requests as at the last decision, without regard to the present ones.
func (m *Memo) decideAnew(cpu bool) {
	if m.memory.decided > 0 && !m.Memory.Empty() {
		m.memory.anew()
		m.decideMemory(m.memory.decided, false)
	}
	if cpu && m.cpu.decided > 0 && !m.CPU.Empty() {
		m.cpu.anew()
		m.decideCPU(m.cpu.decided, 0)
	}
}

// anew forgets the present request: any other one is less than the maximum and may replace it at once. There are no low hours.
func (h *held) anew() {
	h.banned = math.MaxInt64
	h.level = derivation.MaxAmount
	h.changed = 0
	h.low = 0
	h.inLow = false
	h.planned = 0
	h.hours = lowHours{}
}
