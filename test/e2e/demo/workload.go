// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// An amount is CPU in millicores and memory in bytes.
type amount struct{ CPU, Memory int64 }

func (a amount) plus(b amount) amount { return amount{a.CPU + b.CPU, a.Memory + b.Memory} }

func (a amount) times(n int64) amount { return amount{a.CPU * n, a.Memory * n} }

// beyond returns how much a is more than b, resource by resource; nothing where it is less.
func (a amount) beyond(b amount) amount {
	return amount{max(0, a.CPU-b.CPU), max(0, a.Memory-b.Memory)}
}

func amountOf(l corev1.ResourceList) amount {
	return amount{CPU: l.Cpu().MilliValue(), Memory: l.Memory().Value()}
}

// A workload is one of the demo's workloads as it is at a moment.
type workload struct {
	Kind, Name string
	Mode       string
	Want       int // how many pods there should be; for a CronJob, how many run at a time
	Containers []container
	Pods       []pod // oldest first; those that ended too
}

// A container is a container of a workload, in all of its pods.
type container struct {
	Name   string
	Before amount // what the manifest requests
	Advice *advice
}

// advice is podfit's recommendation, as the autoscaler's status has it.
type advice struct{ Lower, Target, Upper amount }

// A pod is a pod of a workload.
type pod struct {
	Name    string
	Created time.Time
	Ready   bool
	Ending  bool // being deleted
	Ended   bool // ran to its end, as a Job's pods do
	Has     map[string]amount
	Uses    map[string]amount // of the containers that are measured
}

// sizesOnlyNew reports whether the workload's pods get their size when they are created, and keep it.
func (w *workload) sizesOnlyNew() bool { return w.Mode == "Initial" || w.Kind == "CronJob" }

// live returns the pods that run or are about to.
func (w *workload) live() []pod {
	return slices.DeleteFunc(slices.Clone(w.Pods), func(p pod) bool { return p.Ending || p.Ended })
}

// newest returns the pod created last, whether it still runs or not.
func (w *workload) newest() (pod, bool) {
	if len(w.Pods) == 0 {
		return pod{}, false
	}
	return w.Pods[len(w.Pods)-1], true
}

// missing says what the workload lacks to be what podfit wants it to be; "" when nothing.
func (w *workload) missing() string {
	for _, c := range w.Containers {
		if c.Advice == nil {
			return fmt.Sprintf("no recommendation for container %s yet", c.Name)
		}
	}
	if w.Mode == "Off" {
		return ""
	}
	if w.sizesOnlyNew() {
		p, ok := w.newest()
		switch {
		case !ok:
			return "no pod yet"
		case !w.fits(p):
			return "no new pod since the recommendation"
		}
		return ""
	}
	live := w.live()
	if len(live) != w.Want {
		return fmt.Sprintf("%d of %d pods", len(live), w.Want)
	}
	for _, p := range live {
		if !p.Ready {
			return fmt.Sprintf("pod %s is not ready", p.Name)
		}
		if !w.fits(p) {
			return fmt.Sprintf("pod %s has not got its size", p.Name)
		}
	}
	return ""
}

// closeEnough is the relative difference below which the updater leaves a pod alone (--pod-update-threshold).
const closeEnough = 0.1

// fits reports whether a pod has the recommended size, by the updater's measure: the differences of the pod's CPU and
// of its memory, each relative to what it has, add up to less than the threshold.
func (w *workload) fits(p pod) bool {
	var has, target amount
	for _, c := range w.Containers {
		has = has.plus(p.Has[c.Name])
		target = target.plus(c.Advice.Target)
	}
	return off(has.CPU, target.CPU)+off(has.Memory, target.Memory) < closeEnough
}

func off(has, target int64) float64 {
	return math.Abs(float64(has-target)) / float64(max(has, 1))
}

// requested returns what the workload requests: by its manifest, and now. A workload whose pods come and go counts as one pod.
func (w *workload) requested() (before, now amount) {
	for _, c := range w.Containers {
		before = before.plus(c.Before.times(int64(w.Want)))
	}
	for _, p := range w.counted() {
		for _, c := range w.Containers {
			now = now.plus(p.Has[c.Name])
		}
	}
	return before, now
}

// counted returns the pods that stand for the workload in sums.
func (w *workload) counted() []pod {
	if !w.sizesOnlyNew() {
		return w.live()
	}
	if p, ok := w.newest(); ok {
		return []pod{p}
	}
	return nil
}

// needs returns what a container uses at its busiest as far as podfit knows: its recommendation without the safety margin
// would be a guess, so it is the largest usage that was measured in one of the pods now.
func (w *workload) needs(c string) (amount, bool) {
	var most amount
	var any bool
	for _, p := range w.Pods {
		if u, ok := p.Uses[c]; ok {
			any = true
			most.CPU, most.Memory = max(most.CPU, u.CPU), max(most.Memory, u.Memory)
		}
	}
	return most, any
}

// has returns the least and the most that the counted pods request for a container.
func (w *workload) has(c string) (least, most amount, any bool) {
	for i, p := range w.counted() {
		a := p.Has[c]
		if i == 0 {
			least, most, any = a, a, true
			continue
		}
		least.CPU, least.Memory = min(least.CPU, a.CPU), min(least.Memory, a.Memory)
		most.CPU, most.Memory = max(most.CPU, a.CPU), max(most.Memory, a.Memory)
	}
	return least, most, any
}
