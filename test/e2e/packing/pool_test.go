// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pool has the nodes of a cluster. A closed node is cordoned, as if it did not exist. A node is opened for a pod that fits on no open node, and is closed
// when it has been empty for a while, as a cluster autoscaler adds and removes nodes. So the scheduler, with its default settings, uses as few nodes as hold the requests.
type pool struct {
	opened, closed []string
	since          time.Time            // when a node was opened last
	empty          map[string]time.Time // since when nodes are empty
}

const (
	// settling is how long the scheduler may take to use a node that was opened.
	settling = 10 * time.Second
	// emptyFor is how long a node is empty before it is closed.
	emptyFor = time.Minute
)

// isShort reports whether a pod fits on no open node, and another one can be opened.
func (p *pool) isShort(now time.Time, pods []corev1.Pod) bool {
	return len(p.closed) > 0 && now.Sub(p.since) > settling && slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return isUnschedulable(&pod) })
}

// unused returns an open node that can be closed, "" if there is none.
func (p *pool) unused(now time.Time, pods []corev1.Pod) (unused string) {
	before := p.empty
	p.empty = map[string]time.Time{}
	for _, node := range p.opened {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node && isLive(&pod) }) {
			continue
		}
		p.empty[node] = now
		if at, was := before[node]; was {
			p.empty[node] = at
		}
		if now.Sub(p.empty[node]) > emptyFor {
			unused = node
		}
	}
	return unused
}

// isUnschedulable reports whether the scheduler has found no node for a pod.
func isUnschedulable(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// isLive reports whether a pod has not ended.
func isLive(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// open opens the next node.
func (w *world) open() error {
	node := w.nodes.closed[0]
	if err := w.schedulable(node, true); err != nil {
		return err
	}
	w.nodes.closed, w.nodes.opened = w.nodes.closed[1:], append(w.nodes.opened, node)
	w.nodes.since = time.Now()
	return nil
}

// adaptNodes opens or closes a node, if the present pods require it.
func (w *world) adaptNodes(now time.Time, pods []corev1.Pod) error {
	unused := w.nodes.unused(now, pods)
	switch {
	case w.nodes.isShort(now, pods):
		w.Logf("hour %.1f: node %s is opened", w.hour, w.nodes.closed[0])
		return w.open()
	case unused != "" && now.Sub(w.nodes.since) > emptyFor:
		w.Logf("hour %.1f: node %s is closed", w.hour, unused)
		w.nodes.opened = slices.DeleteFunc(w.nodes.opened, func(name string) bool { return name == unused })
		w.nodes.closed = append(w.nodes.closed, unused)
		return w.schedulable(unused, false)
	}
	return nil
}

// schedulable allows or forbids new pods on a node.
func (w *world) schedulable(node string, allowed bool) error {
	patch := fmt.Sprintf(`{"spec": {"unschedulable": %v}}`, !allowed)
	_, err := w.CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
