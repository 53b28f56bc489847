// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// MemoryEvictions returns the containers whose memory usage made the kubelet evict a pod. The kubelet's event lists the
// containers that used more than their request, the amount, and the resource.
func MemoryEvictions(e *corev1.Event) []usage.OOM {
	if e.Reason != "Evicted" || e.InvolvedObject.Kind != "Pod" {
		return nil
	}
	containers := listAnnotation(e, v1.AnnotationOffendingContainers)
	usages := listAnnotation(e, v1.AnnotationOffendingContainersUsage)
	resources := listAnnotation(e, v1.AnnotationStarvedResource)
	if len(containers) != len(usages) || len(containers) != len(resources) {
		return nil
	}
	var out []usage.OOM
	for i, name := range containers {
		if resources[i] != string(corev1.ResourceMemory) {
			continue
		}
		used, err := kube.ParseQuantity(usages[i])
		if err != nil {
			continue
		}
		out = append(out, usage.OOM{
			Pod:       cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
			Container: name,
			At:        e.CreationTimestamp.UTC(),
			Memory:    kube.Amount(cluster.Memory, used),
		})
	}
	return out
}

func listAnnotation(e *corev1.Event, annotation string) []string {
	text, ok := e.Annotations[annotation]
	if !ok {
		return nil
	}
	return strings.Split(text, ",")
}
