// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
)

// A MemoryEviction is a container whose use of memory made the kubelet evict its pod.
type MemoryEviction struct {
	Pod       cluster.Key
	PodUID    string
	Container string
	At        time.Time
	Memory    int64 // bytes it used
}

// projectEvictionEvent reads the kubelet's event about an evicted pod. The event lists the containers that used more
// than they asked for, how much, and of what.
func projectEvictionEvent(e *corev1.Event) []MemoryEviction {
	if e.Reason != "Evicted" || e.InvolvedObject.Kind != "Pod" {
		return nil
	}
	containers := listed(e, v1.AnnotationOffendingContainers)
	usages := listed(e, v1.AnnotationOffendingContainersUsage)
	resources := listed(e, v1.AnnotationStarvedResource)
	if len(containers) != len(usages) || len(containers) != len(resources) {
		return nil
	}
	var out []MemoryEviction
	for i, name := range containers {
		if resources[i] != string(corev1.ResourceMemory) {
			continue
		}
		usage, err := resource.ParseQuantity(usages[i])
		if err != nil {
			continue
		}
		out = append(out, MemoryEviction{
			Pod:       cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
			PodUID:    string(e.InvolvedObject.UID),
			Container: name,
			At:        utc(e.CreationTimestamp),
			Memory:    bounded(usage.Value()),
		})
	}
	return out
}

func listed(e *corev1.Event, annotation string) []string {
	text, ok := e.Annotations[annotation]
	if !ok {
		return nil
	}
	return strings.Split(text, ",")
}
