// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// names returns the names of the containers of a workload's pods. All containers have the same template and recommendation. Only the
// first one can be OOM-killed.
func (w *workload) names() []string {
	if w.Second {
		return []string{"app", "log"}
	}
	return []string{"app"}
}

// cpu returns the CPU requests of a pod in millicores.
func cpu(p *corev1.Pod) (sum int64) {
	for i := range p.Spec.Containers {
		sum += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return sum
}

// sizeOf returns the sums of the requests of a pod, in millicores and bytes.
func sizeOf(p *corev1.Pod) size { return size{cpu(p), memory(p)} }

// memory returns the memory requests of a pod in bytes.
func memory(p *corev1.Pod) (sum int64) {
	for i := range p.Spec.Containers {
		sum += p.Spec.Containers[i].Resources.Requests.Memory().Value()
	}
	return sum
}

// running returns the actual requests and limits of a container of a pod.
func running(p *corev1.Pod, container int) corev1.ResourceRequirements {
	if len(p.Status.ContainerStatuses) == 0 {
		return p.Spec.Containers[container].Resources
	}
	return *p.Status.ContainerStatuses[container].Resources
}

// isResized reports whether all containers run with the requests and limits of the spec.
func isResized(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		if !equal(p.Spec.Containers[i].Resources, running(p, i)) {
			return false
		}
	}
	return true
}

// sameResources reports whether the specs of two pods have the same requests and limits.
func sameResources(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(a, b corev1.Container) bool { return equal(a.Resources, b.Resources) })
}

// setResources sets the requests and limits of the spec of a pod to those of another one.
func setResources(p, from *corev1.Pod) {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources = from.Spec.Containers[i].Resources
	}
}

// anyContainer reports whether a condition holds for the new and the current amounts of a container.
func anyContainer(want, has *corev1.Pod, holds func(want, has corev1.ResourceRequirements) bool) bool {
	for i := range want.Spec.Containers {
		if holds(want.Spec.Containers[i].Resources, has.Spec.Containers[i].Resources) {
			return true
		}
	}
	return false
}

// restarts reports whether a resize restarts a container: the memory that it runs with changes. The memory of an earlier resize that the
// kubelet has not completed does not count.
func (w *simulated) restarts(has, next *corev1.Pod) bool {
	for i := range next.Spec.Containers {
		to, from := next.Spec.Containers[i].Resources.Requests, running(has, i).Requests
		if w.Restart && to.Memory().Cmp(*from.Memory()) != 0 {
			return true
		}
	}
	return false
}

// requests returns the requests of all pods of the workload.
func (w *simulated) requests() (sum size) {
	for _, p := range w.pods {
		sum.CPU += cpu(p.pod)
		sum.Memory += memory(p.pod) >> 20
	}
	return sum
}

// hasFreed reports whether all pods exist, and request no more than in an earlier total if a pod gets the recommended size.
func (w *simulated) hasFreed(p *replica, before size, minute int) bool {
	to, now := w.total(minute), w.requests()
	more := size{max(0, to.CPU-cpu(p.pod)), max(0, to.Memory-memory(p.pod)>>20)}
	fits := (more.CPU == 0 || now.CPU+more.CPU <= before.CPU) && (more.Memory == 0 || now.Memory+more.Memory <= before.Memory)
	return fits && w.count().pods >= w.Replicas
}

// total returns the requests of a pod with the recommended size.
func (w *simulated) total(minute int) size {
	n, t := int64(len(w.names())), w.wanted(minute)
	return size{n * t.CPU, n * t.Memory}
}
