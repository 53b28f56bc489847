// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/load/apiserver"
)

// addPod creates a pod of a workload. A pod that has not started yet starts shortly after.
func (f *Fleet) addPod(w *workload, at time.Time, running bool) {
	p := f.pod(w)
	f.placed++
	on := nodeName(f.placed % f.nodes)
	p.CreationTimestamp.Time = at.Truncate(time.Second)
	if running {
		start(p, on, at)
		f.server.Create("/pods", p)
		return
	}
	switch {
	case w.skewed: // the template has changed while no webhook was there
		p.Annotations = map[string]string{bed.Unreviewed: "true"}
	case f.Admit != nil:
		p = f.Admit(p)
	}
	if f.server.Get("/pods", p.Namespace, p.Name) != nil {
		return
	}
	f.server.Create("/pods", p)
	f.later(func() {
		f.server.Modify("/pods", p.Namespace, p.Name, func(m apiserver.Message) {
			if p, ok := m.(*corev1.Pod); ok {
				start(p, on, time.Now())
			}
		})
	})
}

// delay is the time that controllers and kubelets take.
const delay = time.Second

// later runs a job after the delay. Jobs that are late when the fleet stops are dropped.
func (f *Fleet) later(job func()) {
	time.AfterFunc(delay, func() {
		defer func() { _ = recover() }() // the fleet has stopped
		f.jobs <- job
	})
}

// Evicted replaces a pod that was evicted.
func (f *Fleet) Evicted(pod *apiserver.Object) {
	f.later(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		w := f.byName[pod.Namespace+"/"+pod.Labels["app"]]
		if w == nil || w.deleted {
			return
		}
		f.replaced++
		f.replace(w, pod.Name)
	})
}

// replace creates the pod that replaces a deleted one. The pods of a StatefulSet keep their names.
func (f *Fleet) replace(w *workload, name string) {
	if w.ownerKind == "StatefulSet" {
		next := w.created
		if n, ok := ordinal(name, w.owner); ok {
			w.created = n
		}
		f.addPod(w, time.Now(), false)
		w.created = max(next, w.created)
		return
	}
	f.addPod(w, time.Now(), false)
}

func ordinal(name, owner string) (int, bool) {
	n := 0
	if len(name) <= len(owner)+1 {
		return 0, false
	}
	for _, c := range name[len(owner)+1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// Resized applies a resize, as a kubelet does.
func (f *Fleet) Resized(pod *apiserver.Object) {
	f.later(func() {
		f.server.Modify("/pods", pod.Namespace, pod.Name, func(m apiserver.Message) {
			if p, ok := m.(*corev1.Pod); ok {
				actuate(p)
			}
		})
	})
}

// Replaced returns the number of evicted pods that were replaced.
func (f *Fleet) Replaced() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replaced
}

// The shares of the workloads that churn changes in a minute.
const (
	rollouts = 0.002
	scalings = 0.005
	runs     = 0.01 // of jobs
)

// Churn changes workloads until the context ends: rollouts, more or fewer pods, runs of jobs. Half-way it deletes a namespace.
func (f *Fleet) Churn(ctx context.Context, duration time.Duration) {
	r := rand.New(rand.NewPCG(f.Seed, 1))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	half := time.NewTimer(duration / 2)
	defer half.Stop()
	due := make([]float64, 3)
	for {
		select {
		case <-ctx.Done():
			return
		case <-half.C:
			f.deleteNamespace("team-0000")
			continue
		case <-tick.C:
		}
		for i, rate := range []float64{rollouts, scalings, runs} {
			for due[i] += rate * float64(f.Workloads) / 60; due[i] >= 1; due[i]-- {
				f.change(i, r)
			}
		}
	}
}

// change makes one change of a kind to a random workload.
func (f *Fleet) change(kind int, r *rand.Rand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workloads[r.IntN(len(f.workloads))]
	switch {
	case w.deleted:
	case kind == 1 && w.kind != "CronJob":
		f.scale(w, 1-2*r.IntN(2))
	case kind == 0 && w.kind != "CronJob", kind == 2 && w.kind == "CronJob":
		f.rollOut(w)
	}
}

// podsOf returns the pods of a workload.
func (f *Fleet) podsOf(w *workload) []*apiserver.Object {
	var out []*apiserver.Object
	for _, o := range f.server.List("/pods", w.namespace) {
		if o.Labels["app"] == w.name {
			out = append(out, o)
		}
	}
	return out
}

// rollOut replaces all pods of a workload: by those of a new ReplicaSet, or of a new run of a job.
func (f *Fleet) rollOut(w *workload) {
	old := w.owner
	pods := f.podsOf(w)
	f.addOwner(w)
	for _, p := range pods {
		f.server.Delete("/pods", p.Namespace, p.Name)
		f.replace(w, p.Name)
	}
	switch w.kind {
	case "Deployment":
		if f.Varied {
			f.server.Delete("apps/replicasets", w.namespace, old)
			return
		}
		f.server.Modify("apps/replicasets", w.namespace, old, func(m apiserver.Message) {
			if rs, ok := m.(*appsv1.ReplicaSet); ok {
				rs.Spec.Replicas = new(int32)
				rs.Status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation}
			}
		})
	case "CronJob":
		f.server.Delete("batch/jobs", w.namespace, old)
	}
}

// scale adds or removes one pod.
func (f *Fleet) scale(w *workload, by int) {
	pods := f.podsOf(w)
	switch {
	case by > 0:
		f.addPod(w, time.Now(), false)
	case len(pods) > 2:
		f.server.Delete("/pods", w.namespace, pods[len(pods)-1].Name)
	default:
		return
	}
	w.pods += by
	set := func(m apiserver.Message) {
		replicas := int32(w.pods)
		switch c := m.(type) {
		case *appsv1.Deployment:
			c.Spec.Replicas = &replicas
		case *appsv1.ReplicaSet:
			c.Spec.Replicas = &replicas
		case *appsv1.StatefulSet:
			c.Spec.Replicas = &replicas
		}
	}
	switch w.kind {
	case "Deployment":
		f.server.Modify("apps/deployments", w.namespace, w.name, set)
		f.server.Modify("apps/replicasets", w.namespace, w.owner, set)
		f.server.Modify("policy/poddisruptionbudgets", w.namespace, w.name, func(m apiserver.Message) {
			if b, ok := m.(*policyv1.PodDisruptionBudget); ok {
				n := int32(w.pods)
				b.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: n, DesiredHealthy: n / 2, ExpectedPods: n, DisruptionsAllowed: n - n/2, ObservedGeneration: 1}
			}
		})
	case "StatefulSet":
		f.server.Modify("apps/statefulsets", w.namespace, w.name, set)
	}
}

// deleteNamespace deletes a namespace and everything in it.
func (f *Fleet) deleteNamespace(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workloads {
		w.deleted = w.deleted || w.namespace == name
	}
	f.server.DeleteNamespace(name)
}
