// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// DisruptionBudgets returns the PodDisruptionBudgets of a namespace, sorted by name. It returns false if they are unknown: not
// watched, not readable, or stale.
func (w *World) DisruptionBudgets(namespace string) ([]cluster.DisruptionBudget, bool) {
	if w.budgetFeed == nil {
		return nil, false
	}
	state := w.budgetFeed.State()
	if !state.Synced || state.Forbidden || state.IsStale(time.Now()) {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []cluster.DisruptionBudget
	for _, b := range w.budgets.in(namespace) {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b cluster.DisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return out, true
}
