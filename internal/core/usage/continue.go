// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Continue merges the histories of a former workload into those of its successor, for the containers that pods of the successor have. It
// returns these containers. A history that already begins as early is not changed, so a second call does nothing. The former workload keeps its
// histories. Model state of the successor is replaced if it was started after the last sample of the former workload and covers less time, as
// that of a restart is.
func (b *Store) Continue(successor, former cluster.Workload) (containers []string, err error) {
	var errs []error
	for _, from := range b.All(former) {
		to := b.Series(successor, from.container)
		if to == nil || to.instances == nil || to.former == former || from.lastSeen() == 0 || to.first() != 0 && seconds(to.first()) <= seconds(from.first()) {
			continue
		}
		to.former = former
		if err := to.succeed(from, &b.clock); err != nil {
			errs = append(errs, fmt.Errorf("add the history of container %s of the former workload %s: %w", from.container, former, err))
			continue
		}
		containers = append(containers, from.container)
	}
	return containers, errors.Join(errs...)
}

// succeed merges the history of the same container of a former workload.
func (s *ContainerHistory) succeed(from *ContainerHistory, c *clock) error {
	if err := s.add(from, c); err != nil {
		return err
	}
	state, known := from.history(stamp(c.now).Truncate(time.Second))
	if !known && from.restored != nil {
		state = from.restored.history // no extension has decoded it
	}
	state.Updated = state.LastSample // it is not newer than that of the successor
	err := s.recall(state, c)
	s.absorbOOM(from)
	if s.load.starts {
		s.starts = s.starts.Merge(from.starts, stamp(c.now))
	}
	if from.changes != nil {
		s.changes = from.changes
	}
	return err
}

// first returns the time of the first sample, or 0.
func (s *ContainerHistory) first() int64 {
	if s.cpu.first == 0 || s.memory.first == 0 {
		return cmp.Or(s.cpu.first, s.memory.first, s.oomAt)
	}
	return min(s.cpu.first, s.memory.first)
}
