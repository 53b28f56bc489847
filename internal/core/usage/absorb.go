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

// Fork returns a Store for the workloads of a namespace, with the same rules. Another goroutine may own it, because the two Stores share
// no mutable state. Its histograms are empty; its extensions are copies. Absorb merges it back.
func (b *Store) Fork(namespace string) *Store {
	fork := NewStore(b.cfg)
	fork.clock, fork.most = b.clock, b.most
	for key, wl := range b.workloads {
		if key.Namespace != namespace {
			continue
		}
		forked := fork.workload(key)
		forked.governed = wl.governed
		forked.policies = wl.policies
		forked.extend = wl.extend
		forked.edition = wl.edition
		for _, s := range wl.series {
			if s.extension == nil {
				continue
			}
			if data, err := s.extension.AppendBinary(nil); err == nil && len(data) > 0 {
				_ = fork.series(forked, s.container).extension.UnmarshalBinary(data) // if it cannot be decoded, it starts empty
			}
		}
	}
	return fork
}

// Absorb merges a Store that was forked from this one, as if this Store had observed those samples itself. The two must not have
// observed the same samples; their order does not matter. The other Store must not be used after that.
//
// Extensions are replaced by those of the other Store, which started as copies. Samples that the replaced extensions have observed
// since the fork are lost, except the latest OOM kill.
//
// A history that cannot be merged, because the two Stores have different rules, is skipped and is in the error.
func (b *Store) Absorb(o *Store) error {
	var errs []error
	for key, wl := range o.workloads {
		for _, from := range wl.series {
			if from.lastSeen() == 0 && len(from.runs.All()) == 0 {
				continue
			}
			to := b.series(b.workload(key), from.container)
			if err := to.add(from, &b.clock); err != nil {
				errs = append(errs, fmt.Errorf("merge the history of %s of %s: %w", from.container, key, err))
				continue
			}
			to.absorbExtension(from, o.now)
			to.absorbOOM(from)
		}
	}
	return errors.Join(errs...)
}

// add merges the histograms and windows of another history.
func (s *ContainerHistory) add(from *ContainerHistory, c *clock) error {
	last := from.lastSeen()
	memory, windows := withoutWindows(from, last)
	cpu := from.CPU.Clone()
	if err := s.join(&cpu, &memory); err != nil {
		return err
	}
	s.cpu.merge(from.cpu)
	s.memory.merge(from.memory)
	s.adopt(c, extra{windows: sortedWindows(windows)}, last)
	s.runs = s.runs.Merge(from.runs)
	s.version++
	return nil
}

func (s *ContainerHistory) absorbOOM(from *ContainerHistory) {
	s.kill.limit = max(s.kill.limit, from.kill.limit)
	if from.kill.at > s.kill.at {
		s.kill.at = from.kill.at
		s.kill.needed = from.kill.needed
	}
}

// absorbExtension takes the extension of a fork. forked is its time, in Unix nanoseconds.
func (s *ContainerHistory) absorbExtension(from *ContainerHistory, forked int64) {
	if s.load.extend == nil || from.extension == nil || s.load.extend().Form() != from.extension.Form() {
		return // the profile has changed since the fork
	}
	if s.load.edition != from.load.edition { // the parameters of the profile have changed since the fork
		e := s.load.extend()
		data, err := from.extension.AppendBinary(nil)
		if err != nil || e.UnmarshalBinary(data) != nil {
			return
		}
		from.extension = e
	}
	s.extension = from.extension
	if s.kill.at > forked {
		s.extension.ObserveOOM(OOM{Container: s.container, At: stamp(s.kill.at), Memory: s.kill.needed}, s.kill.needed)
	}
}

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

func (s *ContainerHistory) first() int64 {
	if s.cpu.first == 0 || s.memory.first == 0 {
		return cmp.Or(s.cpu.first, s.memory.first, s.kill.at)
	}
	return min(s.cpu.first, s.memory.first)
}
