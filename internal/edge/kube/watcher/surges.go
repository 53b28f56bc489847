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
func (o *ownership) noteSurge(key cluster.Key, now *projection.ControllerState) {
	if now != nil && now.Surging {
		o.surging[key] = struct{}{}
		return
	}
	delete(o.surging, key)
}

// Surging returns the Deployments with the annotation podfit.dev/surge, sorted.
func (o *ownership) Surging() []cluster.Workload {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]cluster.Workload, 0, len(o.surging))
	for key := range o.surging {
		out = append(out, cluster.Workload{Group: projection.GroupOfWellKnown(deploymentKind), Kind: deploymentKind, Namespace: key.Namespace, Name: key.Name})
	}
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
}
