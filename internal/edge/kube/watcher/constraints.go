// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// The constraints are what bounds the pods of a namespace: LimitRanges, ResourceQuotas and PodDisruptionBudgets.
type constraints struct {
	*base
	limitItems store[[]projection.LimitItem]
	limits     map[string]cluster.LimitRange // by namespace: merged from limitItems when it is looked up
	quotas     store[cluster.Quota]
	quotaSets  map[string]*cluster.Quotas // by namespace: merged from quotas when it is looked up
	quotaFeed  *feed.Feed                 // nil if they are not watched
	budgets    store[cluster.DisruptionBudget]
	budgetFeed *feed.Feed // nil if they are not watched
}

func (c *constraints) limitsChanged(key cluster.Key, _, _ *[]projection.LimitItem) {
	delete(c.limits, key.Namespace)
}

func (c *constraints) quotasChanged(key cluster.Key, _, _ *cluster.Quota) {
	delete(c.quotaSets, key.Namespace)
}

// Limits returns the combined constraints of the limit ranges of a namespace.
func (c *constraints) Limits(namespace string) cluster.LimitRange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limitItems.at[namespace] == nil {
		return cluster.LimitRange{} // not stored: a review may name a namespace that does not exist
	}
	return cluster.Memo(&c.limits, namespace, func() cluster.LimitRange { return projection.MergeLimits(c.limitItems.at[namespace]) })
}

// Quotas returns the unused amounts of the ResourceQuotas of a namespace. It returns nil if no quota bounds the size of a pod, and
// if the quotas are unknown: not watched, not readable, or stale.
func (c *constraints) Quotas(namespace string) *cluster.Quotas {
	const maxQuotasRead = 2000 // of a namespace, of any kind, while the mutex is held
	if !c.KnowsQuotas() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.quotas.at[namespace]
	if of == nil {
		return nil
	}
	return cluster.Memo(&c.quotaSets, namespace, func() *cluster.Quotas {
		if len(of) > maxQuotasRead {
			return &cluster.Quotas{TooMany: true}
		}
		return projection.MergeQuotas(slices.Collect(maps.Values(of)))
	})
}

// KnowsQuotas reports whether the ResourceQuotas of the cluster are known: watched, readable and not stale.
func (c *constraints) KnowsQuotas() bool { return isKnown(c.quotaFeed) }

// isKnown reports whether what a feed delivers is known: watched, readable and not stale.
func isKnown(f *feed.Feed) bool {
	if f == nil {
		return false
	}
	state := f.State()
	return state.Synced && !state.Forbidden && !state.IsStale(time.Now())
}

// DisruptionBudgets returns the PodDisruptionBudgets of a namespace, sorted by name. It returns false if they are unknown: not
// watched, not readable, or stale.
func (c *constraints) DisruptionBudgets(namespace string) ([]cluster.DisruptionBudget, bool) {
	if !isKnown(c.budgetFeed) {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.budgets.at[namespace]), func(a, b cluster.DisruptionBudget) int { return strings.Compare(a.Name, b.Name) }), true
}
