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

// Snapshot returns all pods and autoscalers as they are known now, with pods whose owner has arrived since resolved.
// It takes time in proportion to pods plus autoscalers, but holds the mutex for short pieces of it only.
func (w *World) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(w.Pods(), w.Autoscalers())
}

// Pods returns all pods, sorted, resolved as far as their owners are known. Pods whose topmost controller has become known,
// or another, are resolved in the store, too. Each controller is followed once, however many pods it has.
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
			w.pods.table.put(key, q)
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
		w.pods.table.put(key, q)
		return q
	}
	return p
}

// resolved returns a pod with its topmost controller. What was known before stays when the chain cannot be followed now.
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

// keepTop carries what is known of a pod's topmost controller over to the next state of the pod.
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

// Top returns the topmost controller of the one that directly owns a pod (Pod.Controller), or zero when nothing that
// podfit follows owns it. It reports false while that is not known.
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

// Scale returns what a controller says of its replicas. Of a controller that is not watched it is what was read last;
// the first question gets an unknown scale.
func (w *World) Scale(controller cluster.Workload) cluster.Scale {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners.scaleOf(controller)
}

// Limits returns what the limit ranges of a namespace demand together.
func (w *World) Limits(namespace string) cluster.LimitRange {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limitItems.at[namespace] == nil {
		return cluster.LimitRange{} // and nothing to remember of a namespace that a review may have made up
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

// Selectors returns the node selectors that pods have: that of a pod of place p is number p − cluster.Selected.
func (w *World) Selectors() [][]string { return w.in.Selectors() }

// Tolerations returns the tolerations of pods: those of a pod with tolerance t are at index t - cluster.FirstListed.
func (w *World) Tolerations() []cluster.Tolerations { return w.in.Tolerations() }

// MemoryEvictions returns the containers whose use of memory made the kubelet evict their pods, as long as the API
// server remembers (an hour, usually), oldest first. The same ones come again each time.
func (w *World) MemoryEvictions() []usage.OOM {
	var out []usage.OOM
	w.evictions.each(func(_ cluster.Key, e []usage.OOM) { out = append(out, e...) })
	slices.SortFunc(out, func(a, b usage.OOM) int {
		return cmp.Or(a.At.Compare(b.At), a.Pod.Compare(b.Pod), strings.Compare(a.Container, b.Container))
	})
	return out
}
