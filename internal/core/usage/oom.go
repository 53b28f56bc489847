// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// An OOM is a container that was killed for want of memory.
type OOM struct {
	Pod       cluster.Key
	Container string
	At        time.Time // when it was killed
	Memory    int64     // bytes it is known to have been given, or to have used
}

// ObserveOOM takes an OOM kill: as a peak of memory that is higher than what was not enough. It returns whether
// that was news. One may be told any number of times, and after a restart: what counts is that no later kill of
// the container is known yet.
func (b *Book) ObserveOOM(kill OOM) bool {
	instance, at := b.find(kill.Pod, kill.Container, kill.At)
	if instance == nil || at <= instance.lastOOM {
		return false
	}
	instance.lastOOM = at
	series := instance.series
	// What happened long before the last sample is in the past already. Of a container without samples only the
	// present can say that.
	reference := instance.lastMemory
	if reference == 0 {
		reference = b.now
	}
	if reference != 0 && at < reference-int64(series.rules.interval) {
		return b.reject(OldOOM)
	}
	used := min(max(kill.Memory, instance.memoryPeak), maxBytes)
	needed := max(used+min(series.rules.minBump, maxBytes), scale(used, series.rules.ratio))
	if needed <= 0 {
		return false
	}
	instance.addMemory(needed, at, true)
	if at >= series.oomAt {
		series.oomAt = at
		series.oomBytes = needed
	}
	series.version++
	if series.extension != nil {
		series.extension.ObserveOOM(kill, needed)
	}
	return true
}

// ObserveExits takes the OOM kills that a pod's status shows and returns how many were news. It needs no earlier
// status to compare with, so it may be called at any time and any number of times.
func (b *Book) ObserveExits(observed *cluster.Pod) int {
	n := 0
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.Exit == nil || !c.Exit.OOM || !b.sized(c) {
			continue
		}
		requests, limits := c.Running()
		memory := requests.Memory
		if b.cfg.OOMFromLimit {
			memory = max(memory, limits.Memory)
		}
		if b.ObserveOOM(OOM{Pod: observed.Key, Container: c.Name, At: c.Exit.Finished, Memory: memory}) {
			n++
		}
	}
	return n
}

// scale returns an amount times a factor, cut to a whole number that can be an amount.
func scale(amount int64, factor float64) int64 {
	switch v := float64(amount) * factor; {
	case v > maxBytes:
		return maxBytes
	case v > 0:
		return int64(v)
	}
	return 0
}
