// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
)

// memoryStates is a Store in memory.
type memoryStates struct {
	mu       sync.Mutex
	objects  map[cluster.Workload]ledger.State
	writes   int
	deletes  int
	loads    int
	loadErr  error
	writeErr error
}

func newMemoryStates() *memoryStates {
	return &memoryStates{objects: map[cluster.Workload]ledger.State{}}
}

func (m *memoryStates) Load(context.Context) ([]ledger.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	if m.loadErr != nil {
		return nil, m.loadErr
	}
	return slices.Collect(maps.Values(m.objects)), nil
}

func (m *memoryStates) Write(ctx context.Context, _ time.Time, s *ledger.State) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.writeErr); err != nil {
		return false, err
	}
	if reflect.DeepEqual(m.objects[s.Workload], *s) {
		return false, nil
	}
	m.writes++
	m.objects[s.Workload] = *s
	return true, nil
}

func (m *memoryStates) Delete(_ context.Context, w cluster.Workload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writeErr != nil {
		return m.writeErr
	}
	m.deletes++
	delete(m.objects, w)
	return nil
}

func (m *memoryStates) Stored() []cluster.Workload {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.objects), cluster.Workload.Compare)
}

func (m *memoryStates) Name(w cluster.Workload) string { return w.Name }
