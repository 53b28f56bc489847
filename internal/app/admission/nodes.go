// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// nodeTableAge is the maximum age of the table of node sizes. A review uses the watched nodes of that time ago at most, so that it does
// not copy all nodes.
const nodeTableAge = 5 * time.Second

// A nodeTable gives the webhook the sizes of the watched nodes.
type nodeTable struct {
	options watcher.FleetOptions
	watch   watcher.Nodes

	mu    sync.Mutex
	fleet *fleet.Fleet
	built time.Time
}

func newNodeTable(options watcher.FleetOptions, watch watcher.Nodes) *nodeTable {
	return &nodeTable{options: options, watch: watch}
}

// Sizes returns the sizes of the nodes that may take a new pod, or nil if its size does not depend on nodes.
func (t *nodeTable) Sizes(p *corev1.Pod) *fleet.Sizes {
	if !t.options.Scale {
		return nil
	}
	fleet := t.current()
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller && o.Kind == "DaemonSet" {
			return fleet.OnNode(p.Spec.NodeName, cluster.Key{Namespace: p.Namespace, Name: o.Name})
		}
	}
	selector, _ := projection.NodeSelector(&p.Spec, nil) // as for running pods, all nodes count if it is not evaluated
	tolerations, known := projection.TolerationsOf(&p.Spec)
	return fleet.For(selector, tolerations, !known)
}

// current returns the fleet, at most nodeTableAge old.
func (t *nodeTable) current() *fleet.Fleet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fleet == nil || time.Since(t.built) > nodeTableAge {
		t.fleet, t.built = watcher.Fleet(t.watch, t.options), time.Now()
	}
	return t.fleet
}
