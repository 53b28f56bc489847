// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// Replacements creates replacements of pods in dry runs: the API server calls its admission plugins and webhooks and stores nothing.
type Replacements struct {
	clients *kube.Clients
	sender  kube.Sender
}

// NewReplacements returns the client.
func NewReplacements(c *kube.Clients) *Replacements {
	return &Replacements{c, kube.Sender{DryRun: true}}
}

// DryRun returns the containers that a replacement of the pod would have now: their requests and limits, which of them have a CPU startup
// boost, and whether the admission controller would set them (Sized). It needs the rights to list and create pods. An error wraps one of the refusals of package kube: ErrNotFound if the
// pod does not exist any more, ErrWebhook if a webhook that must admit pods cannot be called. Other errors say nothing about a
// replacement: for example, a ResourceQuota counts the pod, which still exists, and a webhook may not support dry runs.
func (r *Replacements) DryRun(ctx context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	existing, err := r.clients.FindPod(ctx, p.Key)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", p.Key, kube.Refused(err))
	}
	if existing == nil || string(existing.UID) != p.UID {
		return nil, fmt.Errorf("read pod %s: %w", p.Key, kube.ErrNotFound)
	}
	created := new(corev1.Pod)
	request := r.clients.Core.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Body(replacementOf(existing))
	if err := kube.Refused(r.sender.SendInto(ctx, request, created)); err != nil {
		return nil, fmt.Errorf("create a replacement of pod %s in a dry run: %w", p.Key, err)
	}
	out := &cluster.Pod{Key: p.Key, Sized: created.Annotations[v1.AnnotationUpdates] != ""}
	for _, c := range slices.Concat(created.Spec.Containers, created.Spec.InitContainers) {
		requests, limits := kube.SizeOf(&c.Resources)
		container := cluster.Container{Name: c.Name, Requests: requests, Limits: limits}
		if _, boosted := created.Annotations[v1.AnnotationStartupBoostPrefix+c.Name]; boosted {
			container.Boosted = new(cluster.Applied)
		}
		out.Containers = append(out.Containers, container)
	}
	return out, nil
}

// replacementOf returns a pod like the given one, as its controller would create it again: without a node, and without what the
// admission controller and the updater write. Its requests and limits are those with which the containers run. While a resize waits, the
// spec has the recommended ones already, and would hide that the admission controller does not set them.
func replacementOf(p *corev1.Pod) *corev1.Pod {
	annotations := maps.Clone(p.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key == v1.AnnotationUpdates || key == v1.AnnotationObservedContainers || key == v1.AnnotationInPlaceUpdated ||
			strings.HasPrefix(key, v1.AnnotationStartupBoostPrefix)
	})
	spec := p.Spec.DeepCopy()
	spec.NodeName = ""
	spec.EphemeralContainers = nil
	statuses := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) { // copies, which share the lists of amounts
		s := cluster.Find(statuses, func(s *corev1.ContainerStatus) bool { return s.Name == c.Name && s.Resources != nil })
		if s != nil {
			replaceAmounts(c.Resources.Requests, s.Resources.Requests)
			replaceAmounts(c.Resources.Limits, s.Resources.Limits)
		}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, GenerateName: p.Name + "-", Labels: p.Labels, Annotations: annotations, OwnerReferences: p.OwnerReferences,
		},
		Spec: *spec,
	}
}

// replaceAmounts replaces the amounts of CPU and memory that a list has.
func replaceAmounts(list, by corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		_, has := list[name]
		if amount, set := by[name]; has && set {
			list[name] = amount
		}
	}
}
