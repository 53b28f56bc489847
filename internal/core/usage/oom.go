// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// An OOM is an out-of-memory kill of a container.
type OOM struct {
	Pod       cluster.Key
	Container string
	At        time.Time // when it was killed
	Memory    int64     // request, limit or usage at that time, in bytes
	Limit     int64     // of memory at that time, in bytes; 0 if it is not known
}

// A lastKill is what is known of the OOM kills of a container.
type lastKill struct {
	at     int64 // of the latest
	needed int64 // memory, in bytes, that it showed to be needed
	limit  int64 // the highest at which this process has observed one
}

// ObserveOOM adds an OOM kill as a memory peak above the memory that was not enough. It returns whether the kill is new. It may
// be called any number of times for one kill, also after a restart: kills not later than the last known one are ignored.
func (b *Store) ObserveOOM(kill OOM) bool {
	if b.HoldKills {
		return false
	}
	instance, at := b.find(kill.Pod, kill.Container, kill.At)
	if instance == nil || at <= instance.lastOOM {
		return false
	}
	instance.lastOOM = at
	series := instance.series
	// Ignore kills long before the last sample. Without samples, compare with the present.
	reference := instance.lastMemory
	reference = cmp.Or(reference, b.now)
	if reference != 0 && at < reference-int64(series.rules.interval) {
		return b.rejected.add(OldOOM)
	}
	used := min(max(kill.Memory, instance.memoryPeak), MaxBytes)
	needed := max(used+min(series.rules.minBump, MaxBytes), int64(min(float64(used)*series.rules.ratio, MaxBytes)))
	if needed <= 0 {
		return false
	}
	instance.addMemory(needed, at, true)
	if at >= series.kill.at {
		series.kill.at = at
		series.kill.needed = needed
	}
	series.kill.limit = max(series.kill.limit, min(kill.Limit, MaxBytes))
	series.version++
	if r := series.load.run(series, kill.Pod.Name, seconds(at), false); r != nil {
		r.Observe(seconds(at), 0, needed)
	}
	if series.extension != nil {
		series.extension.ObserveOOM(kill, needed)
	}
	return true
}

// ObserveExits adds the OOM kills in the status of a pod and returns how many are new. It may be called any number of times with
// the same status.
func (b *Store) ObserveExits(observed *cluster.Pod) int {
	count := 0
	for i := range observed.Containers {
		container := &observed.Containers[i]
		if container.Exit == nil || !container.Exit.OOM || !b.cfg.measures(container) {
			continue
		}
		requests, limits := container.Running()
		if b.ObserveOOM(OOM{Pod: observed.Key, Container: container.Name, At: container.Exit.Finished, Memory: requests.Memory, Limit: limits.Memory}) {
			count++
		}
	}
	return count
}
