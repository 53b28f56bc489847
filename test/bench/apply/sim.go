// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
)

// Delays of the simulated cluster.
const (
	kubeletDelay = time.Second     // from a patch to the new size, or to the condition Deferred
	grace        = 5 * time.Second // from an eviction to the end of the pod
	interval     = time.Minute     // between two passes of the updater
)

// A simulation is a cluster with an updater, in steps of one second. The kubelet does or defers resizes by the room on the node: first
// those that only shrink, then by priority and age. The scheduler counts the larger of the present and the new requests of each pod.
type simulation struct {
	now, start time.Time
	nodes      []cluster.Node
	workloads  []*workload
	replicas   []*replica
	budget     plan.Budget
	ledger     *ledger.Ledger
	firstPass  time.Duration // after the start
	patches    map[string]int

	early    bool // the updater runs early passes
	signaled bool // a change that starts one has occurred

	disruptions int
	serial      int
}

// A workload is a Deployment with an autoscaler.
type workload struct {
	top, controller cluster.Workload
	autoscaler      *cluster.Autoscaler
	size            cluster.Resources // in the pod template
	startSeconds    int
	replicas        int
}

// A replica is one pod of a workload and its replacements.
type replica struct {
	*workload
	pod       *cluster.Pod
	patched   time.Time // of the last change of the spec that the kubelet has not seen
	ends      time.Time // when an evicted pod ends; zero if it is not evicted
	readyAt   time.Time // zero until the pod has a node
	needs     bool      // the pod was too small at the start
	satisfied time.Duration
	unmet     float64 // seconds, each weighted by the part of the increase that was missing; 1 while the pod is not ready
}

func newSimulation(b plan.Budget) *simulation {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	return &simulation{now: start, start: start, budget: b, ledger: ledger.New(), patches: map[string]int{}}
}

// add adds a workload whose replicas run on the given nodes since an hour. Its recommendation is target.
func (s *simulation) add(name string, size, target cluster.Resources, startSeconds int, on ...string) *workload {
	w := &workload{size: size, startSeconds: startSeconds, replicas: len(on)}
	w.top = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	w.controller = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: name + "-1"}
	lower := cluster.Amounts(target.CPU*9/10, target.Memory*9/10)
	upper := cluster.Amounts(target.CPU*3, target.Memory*3)
	w.autoscaler = &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: name}, Target: w.top, Mode: cluster.InPlaceOrRecreate, Created: s.start.Add(-100 * time.Hour),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: lower, Target: target, Upper: upper}}},
	}
	s.workloads = append(s.workloads, w)
	for _, node := range on {
		r := &replica{workload: w, needs: size.CPU < lower.CPU || size.Memory < lower.Memory}
		r.pod = s.newPod(w, s.start.Add(-time.Hour))
		r.pod.Node, r.pod.Phase, r.pod.Ready = node, cluster.Running, true
		r.pod.Started, r.pod.ReadySince = r.pod.Created, r.pod.Created.Add(time.Duration(startSeconds)*time.Second)
		s.replicas = append(s.replicas, r)
	}
	return w
}

func (s *simulation) newPod(w *workload, created time.Time) *cluster.Pod {
	s.serial++
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", w.top.Name, s.serial)}, UID: fmt.Sprintf("%s-%d", w.top.Name, s.serial),
		Controller: w.controller, Top: w.top, Created: created, Phase: cluster.Pending, QoS: cluster.Burstable,
		Containers: []cluster.Container{{Name: "app", Reported: true, Requests: w.size}},
	}
}

// run simulates for a time.
func (s *simulation) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(time.Second) {
		if since := s.now.Sub(s.start) - s.firstPass; since >= 0 && since%interval == 0 || s.early && s.signaled {
			s.signaled = false
			s.pass()
		}
		s.replace()
		s.schedule()
		for i := range s.nodes {
			s.kubelet(&s.nodes[i])
		}
		s.measure()
	}
}

// pass is one pass of the updater. The API server allows everything, and the webhook sizes replacements.
func (s *simulation) pass() {
	w := plan.World{Scales: map[cluster.Workload]cluster.Scale{}, Nodes: s.nodes, Ledger: s.ledger, Limits: map[string]policy.Limits{}}
	var as []*cluster.Autoscaler
	for _, wl := range s.workloads {
		as = append(as, wl.autoscaler)
		w.Scales[wl.controller] = cluster.Scale{Known: true, Replicas: int32(wl.replicas)}
	}
	for _, r := range s.replicas {
		p := *r.pod
		p.Containers = slices.Clone(p.Containers)
		w.Pods = append(w.Pods, &p)
	}
	w.Governed = cluster.Gather(as, w.Pods, false)
	pass := plan.Begin(s.now, w, s.budget)
	pass.Learn()
	for _, d := range pass.Decisions() {
		r := s.replica(d.Pod.UID)
		switch d.Do {
		case decision.Leave, decision.Surge, decision.Delete: // no pod is OOM-killed, and there are no Deployments to surge
			continue
		case decision.Evict:
			s.disruptions++
			r.ends, r.pod.Deleting, r.pod.Ready = s.now.Add(grace), true, false
		case decision.Resize:
			s.patch(r, d.With)
		}
		pass.Done(d)
	}
}

func (s *simulation) replica(uid string) *replica {
	i := slices.IndexFunc(s.replicas, func(r *replica) bool { return r.pod.UID == uid })
	return s.replicas[i]
}

// patch sets the requests in the spec. The pod runs with what it has until the kubelet has resized it.
func (s *simulation) patch(r *replica, with []policy.Fitted) {
	c := &r.pod.Containers[0]
	now, limits := c.Running()
	c.Requests = with[0].Requests.Or(c.Requests)
	if c.Applied = nil; c.Requests != now {
		c.Applied = &cluster.Applied{Requests: now, Limits: limits}
	}
	r.patched = s.now
	s.patches[fmt.Sprintf("%s %s", r.pod.UID, c.Requests)]++
}

// replace removes evicted pods that have ended, and creates their replacements.
func (s *simulation) replace() {
	for _, r := range s.replicas {
		if r.ends.IsZero() || s.now.Before(r.ends) {
			continue
		}
		s.signaled = true // a pod has left its node
		r.pod = s.newPod(r.workload, s.now)
		fits := policy.Fit(r.autoscaler, policy.Limits{}, r.pod)
		r.pod.Containers[0].Requests = fits[0].Requests
		r.ends, r.readyAt = time.Time{}, time.Time{}
	}
}

// schedule places pods on the first node that has room.
func (s *simulation) schedule() {
	for _, r := range s.replicas {
		switch {
		case r.pod.Node == "":
			for i := range s.nodes {
				if s.has(&s.nodes[i], r.pod.Containers[0].Requests) {
					r.pod.Node, r.pod.Started = s.nodes[i].Name, s.now
					r.readyAt = s.now.Add(time.Duration(r.startSeconds) * time.Second)
					break
				}
			}
		case !r.readyAt.IsZero() && !s.now.Before(r.readyAt) && !r.pod.Deleting:
			r.pod.Phase, r.pod.Ready, r.pod.ReadySince, r.readyAt = cluster.Running, true, s.now, time.Time{}
			s.signaled = true
		}
	}
}

// has reports whether the scheduler finds room for a new pod on a node.
func (s *simulation) has(n *cluster.Node, size cluster.Resources) bool {
	used := size
	for _, r := range s.replicas {
		if r.pod.Node == n.Name {
			c := &r.pod.Containers[0]
			now, _ := c.Running()
			used = used.Add(cluster.Amounts(max(now.CPU, c.Requests.CPU), max(now.Memory, c.Requests.Memory)))
		}
	}
	return used.CPU <= n.Allocatable.CPU && used.Memory <= n.Allocatable.Memory
}

// kubelet does or defers the resizes on a node.
func (s *simulation) kubelet(n *cluster.Node) {
	free := n.Allocatable
	var resizing []*replica
	for _, r := range s.replicas {
		if r.pod.Node != n.Name {
			continue
		}
		c := &r.pod.Containers[0]
		now, _ := c.Running()
		free = cluster.Amounts(free.CPU-now.CPU, free.Memory-now.Memory)
		if c.Applied != nil && !r.pod.Deleting && !s.now.Before(r.patched.Add(kubeletDelay)) {
			resizing = append(resizing, r)
		}
	}
	slices.SortStableFunc(resizing, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(growth(a), growth(b)), cmp.Compare(b.pod.Priority, a.pod.Priority), a.pod.Created.Compare(b.pod.Created))
	})
	for _, r := range resizing {
		c := &r.pod.Containers[0]
		now, _ := c.Running()
		cpu, memory := c.Requests.CPU-now.CPU, c.Requests.Memory-now.Memory
		if cpu > max(free.CPU, 0) || memory > max(free.Memory, 0) {
			if r.pod.Resize == nil {
				r.pod.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: s.now}
				s.signaled = true
			}
			continue
		}
		free = cluster.Amounts(free.CPU-cpu, free.Memory-memory)
		s.signaled = s.signaled || cpu < 0 || memory < 0
		c.Applied, r.pod.Resize = nil, nil
	}
}

// growth is 0 for a resize that only shrinks, else 1.
func growth(r *replica) int {
	c := &r.pod.Containers[0]
	now, _ := c.Running()
	if c.Requests.CPU <= now.CPU && c.Requests.Memory <= now.Memory {
		return 0
	}
	return 1
}

// measure notes when a replica that was too small has its target and is ready, and what it lacks until then.
func (s *simulation) measure() {
	for _, r := range s.replicas {
		if !r.needs {
			continue
		}
		lacks := r.lacks()
		r.unmet += lacks
		if lacks == 0 && r.satisfied == 0 {
			r.satisfied = s.now.Sub(s.start) + time.Second
		}
	}
}

// lacks returns the part of the increase that the pod lacks, from 0 to 1: the larger one of CPU and memory.
func (r *replica) lacks() float64 {
	if !r.pod.Ready {
		return 1
	}
	target := r.autoscaler.Advice[0].Target
	now, _ := r.pod.Containers[0].Running()
	part := func(had, now, target int64) float64 {
		if target <= had {
			return 0
		}
		return max(0, float64(target-now)/float64(target-had))
	}
	return max(part(r.size.CPU, now.CPU, target.CPU), part(r.size.Memory, now.Memory, target.Memory))
}
