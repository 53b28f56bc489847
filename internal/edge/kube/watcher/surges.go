// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const deploymentKind = "Deployment"

// noteSurge keeps the index of Deployments with a surge. The mutex is held.
func (w *World) noteSurge(key cluster.Key, now *projection.ControllerState) {
	if now != nil && now.Surging {
		w.surging[key] = struct{}{}
		return
	}
	delete(w.surging, key)
}

// Surging returns the Deployments with the annotation podfit.dev/surge, sorted.
func (w *World) Surging() []cluster.Workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]cluster.Workload, 0, len(w.surging))
	for key := range w.surging {
		out = append(out, cluster.Workload{Group: projection.GroupOfWellKnown(deploymentKind), Kind: deploymentKind, Namespace: key.Namespace, Name: key.Name})
	}
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
}

// Scaled returns the workloads with an HPA, whatever its metrics, and whether they are known.
func (w *World) Scaled() (scaled map[cluster.Workload]bool, known bool) {
	if !w.o.HPAs {
		return nil, false
	}
	for _, f := range w.feeds {
		if s := f.State(); f.Name() == HorizontalFeed && (!s.Synced || s.Forbidden) {
			return nil, false
		}
	}
	scaled = map[cluster.Workload]bool{}
	w.horizontal.each(func(_ cluster.Key, h *cluster.HorizontalAutoscaler) { scaled[h.Target] = true })
	return scaled, true
}
