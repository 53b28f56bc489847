// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/differential/cases"
)

// Pods that are sized by their role get the size of their role in place, soon after a change of the role, and are not ended for it. Upstream has no
// roles, so podfit runs alone.
func TestUpdater_podsWithRoles_getTheirSizeInPlace(t *testing.T) {
	worlds, resizes, settled := 0, 0, 0
	cases.Check(t, usual/2, func(rt *rapid.T) {
		w := drawRoles(cases.Dice{T: rt})
		prepare()
		var violation, journal string
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(w)
			c := newChecker(s, newPodfit(s), nil)
			s.onEvict = func(w *simulated, p *replica, refusal string) {
				if refusal == "" && p.pod.Spec.NodeName != "" && w.OOM.NeedMB == 0 {
					c.fail(s.minute(), "pods with roles are not ended", "%s is evicted", p.pod.Name)
				}
				c.evicting(w, p, refusal)
			}
			for minute := 0; minute < w.Minutes && c.violation == ""; minute++ {
				s.lead(minute)
				c.before(minute)
				c.podfit.pass(t.Context())
				c.noteActions(minute)
				settled += c.roles(minute)
				s.until(minute + 1)
			}
			for _, sw := range s.workloads {
				for _, p := range sw.pods {
					resizes += p.resizes
				}
			}
			violation, journal = c.violation, strings.Join(s.journal[max(0, len(s.journal)-40):], "\n")
		})
		worlds++
		if violation != "" {
			rt.Fatalf("%s\n%s\n%s", violation, cases.Show(w), journal)
		}
	})
	t.Logf("%d worlds, %d resizes of the last pods, %d times a pod had to have the size of its role", worlds, resizes, settled)
	if worlds > 50 && (resizes < worlds || settled < 50*worlds) {
		t.Error("too few pods with roles were resized for the test to mean something")
	}
}

// drawRoles returns a random world of StatefulSets whose pods have roles.
func drawRoles(d cases.Dice) *world {
	w := draw(d)
	w.Minutes, w.Lag = min(w.Minutes, 120), 0
	for i := range w.Workloads {
		x := &w.Workloads[i]
		x.StatefulSet, x.Mode = true, cases.Pick(d, "InPlaceOrRecreate", "InPlace")
		x.Quota, x.MostMB, x.Undo = nil, 0, 0
		x.Followers = &size{CPU: cases.Pick[int64](d, 50, 20), Memory: cases.Pick[int64](d, 0, 50)}
		for at := 0; d.OneIn(2) && len(x.Leads) < 4; {
			at += 1 + d.IntN(30)
			x.Leads = append(x.Leads, leaderChange{At: at, Leader: d.IntN(x.Replicas)})
		}
	}
	return w
}

// role returns the role of a replica in a minute, "" if pods have none.
func (w *workload) role(number, minute int) string {
	leader := 0
	for _, l := range w.Leads {
		if l.At <= minute {
			leader = l.Leader
		}
	}
	switch {
	case w.Followers == nil:
		return ""
	case number == leader:
		return "leader"
	}
	return "follower"
}

// follower returns the recommendation for followers in a minute, nil if pods have no roles. It may have no memory.
func (w *simulated) follower(minute int) *cluster.Resources {
	if w.Followers == nil {
		return nil
	}
	t := w.wanted(minute)
	out := cluster.Resources{}.Set(cluster.CPU, t.CPU*w.Followers.CPU/100)
	if w.Followers.Memory > 0 {
		out = out.Set(cluster.Memory, (t.Memory*w.Followers.Memory/100)<<20)
	}
	return &out
}

// ofRole returns the recommendation for a pod in a minute.
func (w *simulated) ofRole(p *corev1.Pod, minute int) size {
	out := w.wanted(minute)
	if f := w.follower(minute); p.Labels["role"] == "follower" {
		out.CPU = f.CPU
		if v, own := f.Get(cluster.Memory); own && !w.Restart { // a restart could move the role
			out.Memory = v >> 20
		}
	}
	return out
}

// lead sets the labels of pods in a minute.
func (s *simulation) lead(minute int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workloads {
		for _, p := range w.pods {
			if role := w.role(p.number, minute); p.pod.Labels["role"] != role {
				s.change(p, func(pod *corev1.Pod) { pod.Labels["role"] = role })
				s.note("%s is the %s", p.pod.Name, role)
			}
		}
	}
}

// roles checks the pods of a pass, and returns for how many of them the size is certain.
func (c *checker) roles(minute int) (settled int) {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	for _, w := range c.sim.workloads {
		// A change of the role or of the recommendation, and the first start, are a reason for one resize each; a container that is OOM-killed for more.
		most := 2 + len(w.Leads) + len(w.Advice)
		for _, p := range w.pods {
			own := w.ofRole(p.pod, minute)
			has := size{cpu(p.pod) / int64(len(w.names())), (memory(p.pod) >> 20) / int64(len(w.names()))}
			if p.resizes > most && w.OOM.NeedMB == 0 && c.sim.world.Nodes == 0 {
				c.fail(minute, "a pod with a role is resized for a reason", "%s was resized %d times", p.pod.Name, p.resizes)
			}
			if p.lastAt == minute && p.done && p.pod.DeletionTimestamp == nil && has != own && c.sim.world.Nodes == 0 { // on a full node, a pod may get a part
				c.fail(minute, "a pod gets the size of its role", "%s, a %s, was resized to %v, want %v", p.pod.Name, p.pod.Labels["role"], has, own)
			}
			passes := (w.Replicas+c.tolerance(w)-1)/c.tolerance(w) + 2 // only some pods are changed in one pass
			if w.isUndisturbed(c.sim.world) && minute-w.lastChange(p, minute) >= passes && isReady(p.pod) && p.pod.DeletionTimestamp == nil {
				settled++
				near := func(has, want int64) bool {
					return float64(has) >= 0.85*float64(want)-1 && float64(has) <= 1.2*float64(want)+1
				}
				if !near(has.CPU, own.CPU) || !near(has.Memory, own.Memory) && !w.Restart {
					c.fail(minute, "a pod gets the size of its role", "%s, a %s, has %v, want %v", p.pod.Name, p.pod.Labels["role"], has, own)
				}
			}
		}
	}
	return settled
}

// isUndisturbed reports whether nothing keeps the pods of a workload from a resize: there are enough of them, and all are ready.
func (w *simulated) isUndisturbed(in *world) bool {
	return w.Replicas >= 3 && w.MinReplicas == 0 && len(w.Scales) == 0 && len(w.NeverReady) == 0 && len(w.Faults) == 0 && w.Resizing.How == "" && w.OOM.NeedMB == 0 &&
		!w.Restart && in.Rate == 0 && in.Nodes == 0
}

// lastChange returns the last minute in which a pod was started, or its role or recommendation changed.
func (w *simulated) lastChange(p *replica, minute int) int {
	at := max(0, int(time.Until(p.pod.CreationTimestamp.Time)/time.Minute)+minute, p.readyAt)
	for _, l := range w.Leads {
		if l.At <= minute {
			at = max(at, l.At)
		}
	}
	for _, a := range w.Advice {
		if a.At <= minute {
			at = max(at, a.At)
		}
	}
	return at
}
