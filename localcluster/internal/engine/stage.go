// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"sync"

	"podfit.dev/podfit/localcluster/internal/machine"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

// A Stage is the scenario that all nodes of a process play, and that may be changed while they do.
type Stage struct {
	mu       sync.RWMutex
	scenario scenario.Scenario
	version  int
}

// Version grows whenever the scenario changes.
func (s *Stage) Version() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Wish is what a container does.
func (s *Stage) Wish(c scenario.Container) (machine.Wish, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.scenario.Wish(c)
}

// Play replaces the rules.
func (s *Stage) Play(f scenario.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenario.File = f
	s.version++
}

// Override sets or takes back what certain containers do.
func (s *Stage) Override(key string, script scenario.Script) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return s.scenario.Override(key, script)
}

// Overrides are those in force.
func (s *Stage) Overrides() map[string]scenario.Script {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.scenario.Overrides)
}
