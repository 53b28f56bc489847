// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/attempt"
)

// The least time between evictions without effect: it doubles with each of them.
const (
	firstProbe = 30 * time.Minute
	lastProbe  = 6 * time.Hour
)

// probes are the evictions from a workload whose evictions have no effect. One pod is evicted at a time, after a growing back-off.
type probes struct {
	known  bool // the watch showed when the pass began that the last eviction had no effect
	inPass int  // evictions in this pass
	row    int  // consecutive evictions from this workload while evictions were known to have no effect
	began  int  // minute in which the pass of the last eviction began
}

// begin starts a pass.
func (p *probes) begin(known bool) { p.known, p.inPass = known, 0 }

// probing checks that evictions are rare while they have no effect.
func (c *checker) probing(w *simulated, p *replica) {
	st, minute := &c.states[w.index].probes, c.sim.minute()
	st.inPass++
	st.began = c.began
	switch {
	case !st.known:
		if st.inPass == 1 {
			st.row = 0
		}
		return
	case st.inPass > 1:
		c.fail(minute, "evictions without effect are rare", "%s is the pod number %d that a pass evicts, although the last eviction had no effect", p.pod.Name, st.inPass)
	}
	st.row++
	// Passes begin each minute, and take part of a minute.
	after := time.Duration(minute-c.states[w.index].evicted+1) * time.Minute
	if least := attempt.Doubled(firstProbe, lastProbe, st.row); after < least {
		c.fail(minute, "evictions without effect are rare", "%s is evicted %s after the last eviction, and the back-off after %d evictions without effect is %s", p.pod.Name, after, st.row, least)
	}
}

// isIneffective reports whether the watch shows that the last eviction from a workload had no effect: all pods created since are outside
// the bounds of the recommendation, or fit on no node. It is conservative: it reports false if podfit may not know it, for example because
// a scale-up may have created the pods.
func (c *checker) isIneffective(w *simulated, minute int) bool {
	st := &c.states[w.index]
	if st.evicted < 0 || len(w.Scales) > 0 || w.wanted(st.probes.began) != w.wanted(minute) {
		return false
	}
	some := false
	for _, p := range w.pods {
		shown := c.inWatch[p.pod.UID]
		if shown == nil || c.sim.createdAt(p) <= st.evicted {
			continue
		}
		if shown.DeletionTimestamp != nil || !c.isUseless(w, shown, c.sim.createdAt(p)) {
			return false
		}
		some = true
	}
	return some
}

// isUseless reports whether a new pod did not get the recommended size, or got one that is much larger than each node.
func (c *checker) isUseless(w *simulated, p *corev1.Pod, created int) bool {
	const much = 1.2 // podfit does not count a pod that is almost as large as a node
	node := c.sim.world.Node
	if c.sim.world.Nodes > 0 && p.Spec.NodeName == "" {
		return float64(cpu(p)) > much*float64(node.CPU) || float64(memory(p)) > much*float64(node.Memory<<20)
	}
	total := w.total(c.sim.minute())
	fits := c.sim.world.Nodes == 0 || total.CPU <= node.CPU && total.Memory <= node.Memory
	return fits && w.leavesUnsized(created) && p.Status.Phase == corev1.PodRunning && !w.satisfied(&replica{pod: p})
}

// isRescueOverdue reports whether a pod that is down because of OOM kills, and gets more memory by its resize, has waited for it for longer
// than a rescue does.
func (o observation) isRescueOverdue() bool {
	down := !isReady(o.p.pod) && o.p.killed > o.minute-rescueFor
	waits := down && o.p.resized > 0 && o.w.getsMoreMemory(o.p.pod)
	return o.sim.world.Rescue && waits && o.minute-o.p.inProgressSince(o.sim) > stuckAfter+1+o.sim.world.Lag
}

// inProgressSince returns the minute since which the kubelet carries out the last resize of a pod: it may have deferred it before.
func (p *replica) inProgressSince(s *simulation) int {
	c := condition(p.pod, corev1.PodResizeInProgress)
	if c == nil {
		return p.resized
	}
	return max(p.resized, int(c.LastTransitionTime.Sub(s.started)/time.Minute))
}
