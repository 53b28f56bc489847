// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// An Unread is a resource that Load could not list.
type Unread struct {
	Resource string
	Err      error
	Lost     string // what is not known without it; "" if it is required
}

// Load reads all selected resources once, with requests to get and list only. It returns those that could not be listed, in the order in
// which they are listed. Start must not be called on the same World.
func (w *World) Load(ctx context.Context) []Unread {
	const maxLists = 4 // resources that are listed at the same time
	failed := make([]error, len(w.feeds))
	all := context.WithoutCancel(ctx) // each feed has a result
	workqueue.ParallelizeUntil(all, maxLists, len(w.feeds), func(i int) { failed[i] = w.feeds[i].Load(ctx) })
	var out []Unread
	for i, f := range w.feeds {
		if failed[i] != nil {
			out = append(out, Unread{Resource: f.Name, Err: failed[i], Lost: f.LostWithout})
		}
	}
	if err := w.loadOwners(ctx); err != nil {
		out = append(out, Unread{Resource: "API groups", Err: err, Lost: "the controllers of kinds that are not part of Kubernetes"})
	}
	if w.o.Nodes {
		if err := w.loadNewNodes(ctx); err != nil {
			out = append(out, Unread{Resource: "nodepools and machinedeployments", Err: err, Lost: "which nodes can be added"})
		}
	}
	return out
}

// loadOwners discovers the kinds of the API server if a pod or an autoscaler refers to one that is not part of Kubernetes, and reads the
// scales of these controllers.
func (w *World) loadOwners(ctx context.Context) error {
	w.lookUpOwners()
	discovered, err := w.scales.Discover(ctx)
	if err != nil || !discovered {
		return err
	}
	w.lookUpOwners() // now that the kinds are known, this schedules reads of their scales
	w.scales.Read(ctx)
	return nil
}

func (w *World) lookUpOwners() {
	for _, p := range w.Pods() {
		if !p.Controller.IsZero() {
			w.Scale(p.Controller)
		}
	}
}

// Workloads returns the controllers of a built-in kind in a namespace, or in all if it is "", sorted.
func (o *ownership) Workloads(group, kind, namespace string) []cluster.Workload {
	known := o.owners.known[projection.GroupKind{Group: group, Kind: kind}]
	if known == nil {
		return nil
	}
	var out []cluster.Workload
	known.each(func(key cluster.Key, _ projection.ControllerState) {
		if namespace == "" || key.Namespace == namespace {
			out = append(out, cluster.Workload{Group: group, Kind: kind, Namespace: key.Namespace, Name: key.Name})
		}
	})
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
}
