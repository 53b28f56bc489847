// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"time"
)

// Prune removes expired container histories and returns them, sorted, so that their checkpoints can be deleted. A ContainerHistory expires if no tracked
// pod has the container, and
//
//   - it has neither samples nor runs, or
//   - its last sample is older than the length of history (8 days by default).
//
// The containers of the last pods of a workload with an autoscaler do not expire: a monthly job starts its next run with the
// history of the last one.
func (b *Store) Prune(now time.Time) []Ref {
	var gone []Ref
	for key, wl := range b.workloads {
		wl.series = slices.DeleteFunc(wl.series, func(history *ContainerHistory) bool {
			history.forgetWindows(now.UnixNano())
			last := history.lastKnown()
			switch {
			case history.instances != nil:
				return false
			case last == 0 && len(history.runs.All()) == 0: // no samples
			case wl.governed && !history.stale:
				return false
			case now.UnixNano()-last < int64(history.rules.keep()):
				return false
			}
			gone = append(gone, Ref{key, history.container})
			return true
		})
		if len(wl.series) == 0 {
			wl.series = nil
			if wl.pods == 0 && !wl.governed && wl.extend == nil {
				delete(b.workloads, key)
			}
		}
	}
	slices.SortFunc(gone, Ref.Compare)
	return gone
}

// forgetWindows removes restored windows that have ended, and the protection against observing samples twice when it is no longer
// needed.
func (s *ContainerHistory) forgetWindows(now int64) {
	if s.restored == nil {
		return
	}
	s.restored.windows = slices.DeleteFunc(s.restored.windows, func(w window) bool {
		return w.used || s.awaits(&w) <= now
	})
	if s.lastSeen() != 0 && len(s.restored.windows) == 0 && len(s.restored.history.Data) == 0 && now-s.restored.observedUntil > int64(time.Hour) {
		s.restored = nil
	}
}
