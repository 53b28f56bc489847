// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/edge/kube/event"
)

// pendingFor is how long a pod fits on no node, although all are open, before it counts as one that stays Pending.
const pendingFor = 30 * time.Second

// An observer counts what happens in a cluster.
type observer struct {
	requested         float64 // nodes that the requests at the start fill
	nodesStart, nodes int     // with pods: at the start, and the most
	used              float64 // largest share of a node's allocatable memory that its pods use
	kills             map[string]int
	killsLimit        int             // kills of containers at their memory limit
	killed            map[string]bool // workloads with such a kill
	killsNode         int             // kills because the node had no memory
	evicted           map[types.UID]bool
	pending           map[types.UID]time.Time // since when pods fit on no node
	stayed            map[types.UID]bool
	placeholders      map[types.UID]bool // pods of podfit that hold room for a replacement, and stayed Pending
	nodeOf            map[string]string  // by pod
}

func newObserver() observer {
	return observer{
		kills: map[string]int{}, killed: map[string]bool{}, evicted: map[types.UID]bool{}, pending: map[types.UID]time.Time{}, stayed: map[types.UID]bool{},
		placeholders: map[types.UID]bool{}, nodeOf: map[string]string{},
	}
}

// observe counts what has changed. most is the largest memory usage of each workload since the observation before, in bytes.
func (w *world) observe(now time.Time, pods []corev1.Pod, most map[string]float64) error {
	containers, err := w.Usage(w.Context())
	if err != nil {
		return err
	}
	o := &w.observed
	used := map[string]float64{}
	for i := range containers {
		c := &containers[i]
		used[c.Node] += float64(c.Memory)
		key := c.UID + "/" + c.Container
		for ; o.kills[key] < c.OOMKills; o.kills[key]++ {
			if most[c.Owner] <= float64(c.MemoryLimit) {
				o.killsNode++
				w.Logf("hour %.1f: container of pod %s was killed below its memory limit of %s, because its node had no memory", w.hour, c.Pod, gib(float64(c.MemoryLimit)))
				continue
			}
			o.killsLimit++
			if !o.killed[c.Owner] {
				w.Logf("hour %.1f: container of pod %s was killed at its memory limit of %s; it uses %s", w.hour, c.Pod, gib(float64(c.MemoryLimit)), gib(most[c.Owner]))
			}
			o.killed[c.Owner] = true
		}
	}
	for node, bytes := range used {
		if part := bytes / allocatableMemory; part > o.used {
			o.used = part
			if part > guard.Line {
				w.Logf("hour %.1f: the pods of node %s use %.0f %% of its memory, the most until now", w.hour, node, 100*part)
			}
		}
	}
	w.count(now, pods)
	return nil
}

// count counts nodes with pods, pods that the kubelet has evicted, and those that stay Pending.
func (w *world) count(now time.Time, pods []corev1.Pod) {
	o := &w.observed
	nodes := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		stayed := o.stayed
		if isPlaceholder(p) {
			stayed = o.placeholders
		} else if p.Spec.NodeName != "" {
			o.nodeOf[p.Name] = p.Spec.NodeName
			nodes[p.Spec.NodeName] = nodes[p.Spec.NodeName] || isLive(p)
		}
		if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" && !o.evicted[p.UID] {
			o.evicted[p.UID] = true
			w.Logf("hour %.1f: the kubelet of node %s evicted pod %s: %s", w.hour, p.Spec.NodeName, p.Name, p.Status.Message)
		}
		if !isUnschedulable(p) || len(w.nodes.closed) > 0 {
			delete(o.pending, p.UID)
			continue
		}
		if o.pending[p.UID].IsZero() {
			o.pending[p.UID] = now
		}
		if now.Sub(o.pending[p.UID]) > pendingFor && !stayed[p.UID] {
			stayed[p.UID] = true
			w.Logf("hour %.1f: pod %s, which requests %s, stays Pending", w.hour, p.Name, gib(p.Spec.Containers[0].Resources.Requests.Memory().AsApproximateFloat64()))
		}
	}
	n := 0
	for _, live := range nodes {
		if live {
			n++
		}
	}
	if o.nodesStart == 0 {
		o.nodesStart = n
	}
	o.nodes = max(o.nodes, n)
}

// isPlaceholder reports whether podfit has created a pod to hold room for a replacement. Its owner is the pod that is to be replaced.
func isPlaceholder(p *corev1.Pod) bool { return p.Labels["podfit.dev/placeholder"] == "true" }

func gib(bytes float64) string { return fmt.Sprintf("%.2f GiB", bytes/(1<<30)) }

// A change is a pod that the updater evicted, deleted or replaced by a surge.
type change struct {
	at                      time.Time
	pod, node, do, workload string
	reason, text            string
}

// changes are what the updater did, the oldest first.
type changes struct {
	moves    []change // by the node guard
	replaced []change // for other reasons
	resized  int      // in place
}

// changes reads the events of the updater.
func (w *world) changes(ctx context.Context) (out changes, err error) {
	l, err := w.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "source=" + event.Source + ",involvedObject.kind=Pod"})
	if err != nil {
		return out, err
	}
	for i := range l.Items {
		e := &l.Items[i]
		if e.Reason == event.InPlaceResizedByVPA {
			out.resized += max(1, int(e.Count))
			continue
		}
		of := strings.Split(e.Annotations["podfit.dev/workload"], "/")
		c := change{
			at: e.LastTimestamp.Time, pod: e.InvolvedObject.Name, node: w.observed.nodeOf[e.InvolvedObject.Name], do: e.Reason, workload: of[len(of)-1],
			reason: e.Annotations["podfit.dev/reason"], text: e.Annotations["podfit.dev/reason-text"],
		}
		switch {
		case !slices.Contains([]string{event.EvictedByVPA, event.Surge, event.OOMRescued}, e.Reason):
		case c.reason == decision.NodeNearlyFull.String():
			out.moves = append(out.moves, c)
		default:
			out.replaced = append(out.replaced, c)
		}
	}
	byTime := func(a, b change) int { return a.at.Compare(b.at) }
	slices.SortFunc(out.moves, byTime)
	slices.SortFunc(out.replaced, byTime)
	return out, nil
}

// excess returns how the node guard has moved more pods than it may: at most one a minute and three an hour from a node, and three an hour of a workload.
// The moves are in the order of time.
func excess(moves []change) (out []string) {
	for i, m := range moves {
		fromNode, ofWorkload := 1, 1
		for _, before := range moves[:i] {
			ago := m.at.Sub(before.at)
			if before.node == m.node && ago < guard.Rest {
				fromNode++
			}
			if before.workload == m.workload && ago < guard.Rest {
				ofWorkload++
			}
			if before.node == m.node && ago < time.Minute-2*time.Second { // events have whole seconds
				out = append(out, fmt.Sprintf("pods %s and %s moved from node %s within %v", before.pod, m.pod, m.node, ago))
			}
		}
		if fromNode > guard.MostMoves || ofWorkload > guard.MostMoves {
			out = append(out, fmt.Sprintf("pod %s is move %d from node %s and %d of its workload within %v, want at most %d", m.pod, fromNode, m.node, ofWorkload, guard.Rest, guard.MostMoves))
		}
	}
	return out
}
