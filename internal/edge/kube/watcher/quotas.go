// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// maxQuotasRead is the maximum number of quotas of a namespace, of any kind, that Quotas reads while it holds the mutex.
const maxQuotasRead = 2000

// Quotas returns the unused amounts of the ResourceQuotas of a namespace. It returns nil if no quota bounds the size of a pod, and
// if the quotas are unknown: not watched, not readable, or stale.
func (w *World) Quotas(namespace string) *cluster.Quotas {
	if !w.KnowsQuotas() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.quotas.at[namespace]
	if of == nil {
		return nil
	}
	known, ok := w.quotaSets[namespace]
	if ok {
		return known
	}
	if of.size > maxQuotasRead {
		known = &cluster.Quotas{TooMany: true}
	} else {
		all := make([]cluster.Quota, 0, of.size)
		for _, q := range w.quotas.in(namespace) {
			all = append(all, q)
		}
		known = projection.MergeQuotas(all)
	}
	w.quotaSets[namespace] = known
	return known
}

// KnowsQuotas reports whether the ResourceQuotas of the cluster are known: watched, readable and not stale.
func (w *World) KnowsQuotas() bool {
	if w.quotaFeed == nil {
		return false
	}
	state := w.quotaFeed.State()
	return state.Synced && !state.Forbidden && !state.IsStale(time.Now())
}

func (w *World) forgetQuotaSet(key cluster.Key, _, now *cluster.Quota) cluster.Quota {
	delete(w.quotaSets, key.Namespace)
	if now == nil {
		return cluster.Quota{}
	}
	return *now
}
