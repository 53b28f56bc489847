// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"sync"

	"podfit.dev/podfit/localcluster/internal/machine"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

// A Stage is the scenario of all nodes of a process. It can be changed while they run.
type Stage struct {
	mu       sync.RWMutex
	scenario scenario.Scenario
	version  int
}

// Version returns a number that grows with each change of the scenario.
func (s *Stage) Version() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Wish returns what a container does.
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

// Override sets or removes an override.
func (s *Stage) Override(key string, script scenario.Script) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return s.scenario.Override(key, script)
}

// Overrides returns the active overrides.
func (s *Stage) Overrides() map[string]scenario.Script {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.scenario.Overrides)
}
