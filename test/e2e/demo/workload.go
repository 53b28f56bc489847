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

// beyond returns the excess of a over b for each resource, at least 0.
func (a amount) beyond(b amount) amount {
	return amount{max(0, a.CPU-b.CPU), max(0, a.Memory-b.Memory)}
}

func amountOf(l corev1.ResourceList) amount {
	return amount{CPU: l.Cpu().MilliValue(), Memory: l.Memory().Value()}
}

// A workload is the state of one of the demo's workloads at one time.
type workload struct {
	Kind, Name string
	Mode       string
	Want       int // number of pods; for a CronJob, how many run at a time
	Containers []container
	Pods       []pod // oldest first, including completed pods
}

// A container is a container of a workload's pod template.
type container struct {
	Name   string
	Before amount // requests in the manifest
	Advice *advice
}

// advice is podfit's recommendation in the status of the VPA.
type advice struct{ Lower, Target, Upper amount }

// A pod is a pod of a workload.
type pod struct {
	Name    string
	Created time.Time
	Ready   bool
	Ending  bool // being deleted
	Ended   bool // completed, like a Job's pod
	Has     map[string]amount
	Uses    map[string]amount // by container; only containers with metrics
}

// sizesOnlyNew reports whether the workload's pods get their size only at creation.
func (w *workload) sizesOnlyNew() bool { return w.Mode == "Initial" || w.Kind == "CronJob" }

// live returns the pods that run or start.
func (w *workload) live() []pod {
	return slices.DeleteFunc(slices.Clone(w.Pods), func(p pod) bool { return p.Ending || p.Ended })
}

// newest returns the pod created last, including completed pods.
func (w *workload) newest() (pod, bool) {
	if len(w.Pods) == 0 {
		return pod{}, false
	}
	return w.Pods[len(w.Pods)-1], true
}

// missing returns why the workload has not converged, or "".
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
			return fmt.Sprintf("pod %s does not have its size yet", p.Name)
		}
	}
	return ""
}

// closeEnough is the relative difference below which the updater does not change a pod (--pod-update-threshold).
const closeEnough = 0.1

// fits reports whether a pod has the recommended size, by the updater's measure: the differences of the pod's CPU and memory,
// each relative to its request, add up to less than the threshold.
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

// requested returns the requests of the workload in its manifest, and now. A CronJob counts as one pod.
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

// counted returns the pods that count in sums.
func (w *workload) counted() []pod {
	if !w.sizesOnlyNew() {
		return w.live()
	}
	if p, ok := w.newest(); ok {
		return []pod{p}
	}
	return nil
}

// needs returns the largest current usage of a container in any of the workload's pods, and whether there are metrics.
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

// has returns the smallest and the largest request for a container in the counted pods.
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
