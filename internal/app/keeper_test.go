// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// benchHistories is where a bench stores what profiles remember.
type benchHistories struct {
	mu     sync.Mutex
	stored map[cluster.Workload][]usage.History
	writes int
	err    error // what a write says
}

func newBenchHistories() *benchHistories {
	return &benchHistories{stored: map[cluster.Workload][]usage.History{}}
}

func (b *bench) storage() storage { return storage{b, b.remembered} }

func (h *benchHistories) Load(_ context.Context, each func(cluster.Workload, []usage.History)) error {
	for w, hs := range h.stored {
		each(w, slices.Clone(hs))
	}
	return nil
}

func (h *benchHistories) Write(_ context.Context, w cluster.Workload, hs []usage.History) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := func(x, y usage.History) bool { return x.Container == y.Container && bytes.Equal(x.Data, y.Data) }
	switch {
	case h.err != nil:
		return false, fmt.Errorf("write: %w", h.err)
	case slices.EqualFunc(h.stored[w], hs, same):
		return false, nil
	}
	h.stored[w] = hs
	h.writes++
	return true, nil
}

func (h *benchHistories) Collect(_ context.Context, keep func(cluster.Workload) bool) (int, error) {
	n := 0
	for w := range h.stored {
		if !keep(w) {
			delete(h.stored, w)
			n++
		}
	}
	return n, nil
}
