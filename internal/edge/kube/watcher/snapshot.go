// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Snapshot returns all pods and autoscalers, with the topmost controllers of the pods as far as they are known now. Its time is
// proportional to the number of pods and autoscalers, but it holds the mutex only for short pieces.
func (w *World) Snapshot() *cluster.Snapshot { return cluster.NewSnapshot(w.Pods(), w.Autoscalers()) }

// Pods returns all pods, sorted, with their topmost controllers as far as they are known. If the topmost controller of a pod has
// changed, the pod is also updated in the store. The owners of each controller are followed once for all its pods.
func (w *World) Pods() []*cluster.Pod {
	type answer struct {
		top cluster.Workload
		err error
	}
	answers := make(map[cluster.Workload]answer)
	top := func(c cluster.Workload) (cluster.Workload, error) {
		a, ok := answers[c]
		if !ok {
			a.top, a.err = w.owners.top(c)
			answers[c] = a
		}
		return a.top, a.err
	}
	out := make([]*cluster.Pod, 0, w.pods.count())
	w.pods.each(func(key cluster.Key, p *cluster.Pod) {
		out = append(out, w.resolved(key, p, top))
	})
	slices.SortFunc(out, func(a, b *cluster.Pod) int { return a.Compare(b.Key) })
	return out
}

// Pod returns one pod, or nil.
func (w *World) Pod(key cluster.Key) *cluster.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pods.get(key)
	if !ok {
		return nil
	}
	return w.resolved(key, p, w.owners.top)
}

// resolved returns a pod with its topmost controller, and stores it if that has changed. If the owners cannot be followed now, the previous
// result is kept. The mutex is held.
func (w *World) resolved(key cluster.Key, p *cluster.Pod, top func(cluster.Workload) (cluster.Workload, error)) *cluster.Pod {
	if p.Controller.IsZero() {
		return p
	}
	t, err := top(p.Controller)
	if err != nil || t == p.Top {
		return p
	}
	q := *p
	q.Top = t
	w.pods.set(key, &q)
	return &q
}

// Top returns the topmost controller of a controller that directly owns a pod (Pod.Controller), or zero if podfit does not follow
// owners of its kind. It returns false while the topmost controller is unknown.
func (o *ownership) Top(controller cluster.Workload) (cluster.Workload, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, err := o.owners.top(controller)
	return t, err == nil
}

// Scale returns the scale of a controller. For a controller that is not watched, it is the result of the last read; the first
// call returns an unknown scale.
func (o *ownership) Scale(controller cluster.Workload) cluster.Scale {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owners.scaleOf(controller)
}

// Daemons returns all DaemonSets, sorted.
func (o *ownership) Daemons() []cluster.Daemon {
	var out []cluster.Daemon
	o.owners.known[projection.GroupKind{Group: "apps", Kind: "DaemonSet"}].each(func(_ cluster.Key, c projection.ControllerState) {
		if c.Daemon != nil {
			out = append(out, *c.Daemon)
		}
	})
	slices.SortFunc(out, func(a, b cluster.Daemon) int { return a.Compare(b.Key) })
	return out
}

// Selectors returns the node selectors of pods: the selector of a pod with place p is at index p - cluster.Selected.
func (b *base) Selectors() []cluster.NodeSelector { return b.in.Selectors() }

// Tolerations returns the different lists of tolerations of pods. That of a pod is at index Pod.Tolerance - cluster.FirstListed.
func (b *base) Tolerations() []cluster.Tolerations { return b.in.Tolerations() }

const deploymentKind = "Deployment"

// noteSurge keeps the index of Deployments with a surge. The mutex is held.
func (o *ownership) noteSurge(key cluster.Key, now *projection.ControllerState) {
	if now != nil && now.Surging {
		cluster.Put(&o.surging, key, struct{}{})
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
		out = append(out, cluster.Workload{Group: cluster.BuiltinKinds[deploymentKind], Kind: deploymentKind, Namespace: key.Namespace, Name: key.Name})
	}
	slices.SortFunc(out, cluster.Workload.Compare)
	return out
}
