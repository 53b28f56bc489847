// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Snapshot returns all pods and autoscalers, with the topmost controllers of the pods as far as they are known now. Its time is
// proportional to the number of pods and autoscalers, but it holds the mutex only for short pieces.
func (w *World) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(w.Pods(), w.Autoscalers())
}

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
		q := resolved(p, top)
		if q != p {
			w.pods.table.set(key, q)
		}
		out = append(out, q)
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
	if q := resolved(p, w.owners.top); q != p {
		w.pods.table.set(key, q)
		return q
	}
	return p
}

// resolved returns a pod with its topmost controller. If the owners cannot be followed now, the previous result is kept.
func resolved(p *cluster.Pod, top func(cluster.Workload) (cluster.Workload, error)) *cluster.Pod {
	if p.Controller.IsZero() {
		return p
	}
	t, err := top(p.Controller)
	if err != nil || t == p.Top {
		return p
	}
	q := *p
	q.Top = t
	return &q
}

// keepTop copies the topmost controller of a pod to the next version of the pod.
func keepTop(_ cluster.Key, before, now **cluster.Pod) *cluster.Pod {
	if now == nil {
		return nil
	}
	p := *now
	if before != nil && (*before).UID == p.UID && (*before).Controller == p.Controller {
		p.Top = (*before).Top
	}
	return p
}

// Top returns the topmost controller of a controller that directly owns a pod (Pod.Controller), or zero if podfit does not follow
// owners of its kind. It returns false while the topmost controller is unknown.
func (w *World) Top(controller cluster.Workload) (cluster.Workload, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, err := w.owners.top(controller)
	return t, err == nil
}

// HasAutoscalers reports whether a namespace has any autoscaler.
func (w *World) HasAutoscalers(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.autoscalers.at[namespace] != nil
}

// Scale returns the scale of a controller. For a controller that is not watched, it is the result of the last read; the first
// call returns an unknown scale.
func (w *World) Scale(controller cluster.Workload) cluster.Scale {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners.scaleOf(controller)
}

// Limits returns the combined constraints of the limit ranges of a namespace.
func (w *World) Limits(namespace string) cluster.LimitRange {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limitItems.at[namespace] == nil {
		return cluster.LimitRange{} // not stored: a review may name a namespace that does not exist
	}
	merged, ok := w.limits[namespace]
	if !ok {
		merged = projection.MergeLimits(w.limitItems.in(namespace))
		w.limits[namespace] = merged
	}
	return merged
}

func (w *World) forgetMergedLimits(key cluster.Key, _, now *[]projection.LimitItem) []projection.LimitItem {
	delete(w.limits, key.Namespace)
	if now == nil {
		return nil
	}
	return *now
}

// Nodes returns all nodes, sorted by name.
func (w *World) Nodes() []cluster.Node {
	out := make([]cluster.Node, 0, w.nodes.count())
	w.nodes.each(func(_ cluster.Key, n cluster.Node) { out = append(out, n) })
	slices.SortFunc(out, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Daemons returns all DaemonSets, sorted.
func (w *World) Daemons() []cluster.Daemon {
	var out []cluster.Daemon
	w.owners.known[projection.GroupKind{Group: "apps", Kind: "DaemonSet"}].each(func(_ cluster.Key, c projection.ControllerState) {
		if c.Daemon != nil {
			out = append(out, *c.Daemon)
		}
	})
	slices.SortFunc(out, func(a, b cluster.Daemon) int { return a.Compare(b.Key) })
	return out
}

// Selectors returns the node selectors of pods: the selector of a pod with place p is at index p - cluster.Selected.
func (w *World) Selectors() []cluster.NodeSelector { return w.in.Selectors() }

// Tolerations returns the different lists of tolerations of pods. That of a pod is at index Pod.Tolerance - cluster.FirstListed.
func (w *World) Tolerations() []cluster.Tolerations { return w.in.Tolerations() }

// MemoryEvictions returns the containers whose memory usage made the kubelet evict their pods, oldest first. The API server keeps
// the events for an hour by default, so repeated calls return the same evictions.
func (w *World) MemoryEvictions() []usage.OOM {
	var out []usage.OOM
	w.evictions.each(func(_ cluster.Key, e []usage.OOM) { out = append(out, e...) })
	slices.SortFunc(out, func(a, b usage.OOM) int {
		return cmp.Or(a.At.Compare(b.At), a.Pod.Compare(b.Pod), strings.Compare(a.Container, b.Container))
	})
	return out
}
