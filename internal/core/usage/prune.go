// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"time"
)

// Prune forgets what is not needed any more and returns it, sorted, so that what is stored of it can be removed.
// A Series goes when no tracked pod has the container, and
//
//   - nothing has ever been seen of it, or
//   - it was last heard of a whole history ago (8 days by default).
//
// But what a workload under an autoscaler last ran with stays as long as the workload is under it: a monthly job
// starts its next run with what it learnt in the last.
func (b *Book) Prune(now time.Time) []Ref {
	var gone []Ref
	for key, wl := range b.workloads {
		wl.series = slices.DeleteFunc(wl.series, func(s *Series) bool {
			s.forgetWindows(now.UnixNano())
			last := s.lastKnown()
			switch {
			case s.instances != nil:
				return false
			case last == 0: // nothing to lose
			case wl.governed && !s.stale:
				return false
			case now.UnixNano()-last < int64(s.rules.keep()):
				return false
			}
			gone = append(gone, Ref{key, s.container})
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

// forgetWindows drops restored windows that have ended: their pods did not come again. And what nobody measures any more
// the extension need not be kept from seeing twice.
func (s *Series) forgetWindows(now int64) {
	if s.restored == nil {
		return
	}
	s.restored.windows = slices.DeleteFunc(s.restored.windows, func(w window) bool {
		return w.used || s.awaits(&w) <= now
	})
	if s.lastSeen() != 0 && len(s.restored.windows) == 0 && len(s.restored.history.Data) == 0 && now-s.restored.told > int64(time.Hour) {
		s.restored = nil
	}
}
