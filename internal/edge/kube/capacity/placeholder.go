// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity creates, reads and deletes requests for room for the replacement of a pod, before the pod is evicted: placeholder pods,
// which the scheduler places, and ProvisioningRequests, which cluster autoscaler serves.
//
// The names of the objects follow from the UID of the pod, so repeated requests create nothing twice. The package does not retry and makes no
// decisions.
package capacity

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Placeholders creates and deletes placeholder pods. It does not retry; the caller does.
type Placeholders struct {
	clients *kube.Clients
	image   string
	sender  kube.Sender
}

// NewPlaceholders returns the client. Placeholder pods run the given image.
func NewPlaceholders(c *kube.Clients, image string) *Placeholders {
	return &Placeholders{clients: c, image: image}
}

// Available returns why placeholder pods cannot be created, or "" if they can: the PriorityClass exists and is lower than that of other
// pods, and podfit may create pods. A dry run does not check the permission.
func (h *Placeholders) Available(ctx context.Context, dryRun bool) (problem string, err error) {
	if !dryRun {
		// First, because with the rights of upstream's updater the API server would refuse to return the PriorityClass.
		problem, err = missingRight(ctx, h.clients, kube.Right{Verb: "create", Resource: "pods"})
		if problem != "" || err != nil {
			return problem, err
		}
	}
	class, err := h.clients.Core.SchedulingV1().PriorityClasses().Get(ctx, projection.PlaceholderClass, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "PriorityClass " + projection.PlaceholderClass + " does not exist", nil
	case apierrors.IsForbidden(err):
		return "no permission to get PriorityClass " + projection.PlaceholderClass, nil
	case err != nil:
		return "", fmt.Errorf("get PriorityClass %s: %w", projection.PlaceholderClass, err)
	case class.Value >= 0 || class.PreemptionPolicy == nil || *class.PreemptionPolicy != corev1.PreemptNever:
		return "PriorityClass " + projection.PlaceholderClass + " must have a negative value and preemptionPolicy Never", nil
	}
	return "", nil
}

// Create creates the placeholder of a pod with the given requests. It returns nil if it exists already. An error wraps one of the refusals,
// kube.ErrNotFound if the pod does not exist any more, or the outcome is unknown.
func (h *Placeholders) Create(ctx context.Context, p *cluster.Pod, size cluster.Resources) error {
	owner, err := h.owner(ctx, p)
	if err != nil {
		return err
	}
	wanted := h.build(owner, size)
	err = h.sender.Send(ctx, h.clients.Core.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Body(wanted))
	if apierrors.IsAlreadyExists(err) {
		return h.adopt(ctx, wanted)
	}
	if err = kube.Refused(err); err != nil {
		return fmt.Errorf("create the placeholder pod of %s: %w", p.Key, err)
	}
	return nil
}

// adopt returns nil if the placeholder exists already. One that has ended is deleted, so that the next attempt creates it again.
func (h *Placeholders) adopt(ctx context.Context, wanted *corev1.Pod) error {
	existing, err := h.clients.FindPod(ctx, keyOf(&wanted.ObjectMeta))
	switch {
	case err != nil:
		return fmt.Errorf("read placeholder pod %s/%s: %w", wanted.Namespace, wanted.Name, kube.WithReason(kube.ErrNotSent, err)) // nothing was changed
	case existing == nil:
		return kube.WithReason(kube.ErrBusy, fmt.Errorf("placeholder pod %s/%s was deleted while it was read", wanted.Namespace, wanted.Name))
	case !projection.IsPlaceholder(existing) || existing.Annotations[projection.PlaceholderUID] != wanted.Annotations[projection.PlaceholderUID]:
		return kube.WithReason(kube.ErrDenied, fmt.Errorf("pod %s/%s exists and does not belong to this request; delete it, so that podfit can create the placeholder pod", wanted.Namespace, wanted.Name))
	case existing.Status.Phase == corev1.PodFailed || existing.Status.Phase == corev1.PodSucceeded:
		key := cluster.Key{Namespace: existing.Namespace, Name: existing.Name}
		if err := h.Delete(ctx, &cluster.CapacityRequest{Key: key, UID: string(existing.UID)}); err != nil {
			return err
		}
		return kube.WithReason(kube.ErrBusy, fmt.Errorf("the placeholder pod %s was not running any more, so it was deleted, and a new one is created later", key))
	}
	return nil
}

// owner returns the pod that a placeholder is for. The error wraps kube.ErrNotFound if it does not exist any more.
func (h *Placeholders) owner(ctx context.Context, p *cluster.Pod) (*corev1.Pod, error) {
	owner, err := h.clients.FindPod(ctx, p.Key)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", p.Key, kube.WithReason(kube.ErrNotSent, err)) // nothing was changed
	}
	if owner == nil || string(owner.UID) != p.UID {
		return nil, fmt.Errorf("read pod %s: %w", p.Key, kube.ErrNotFound)
	}
	return owner, nil
}

// Delete deletes a placeholder pod at once: it runs nothing that must end first. It returns nil if the pod does not exist.
func (h *Placeholders) Delete(ctx context.Context, placeholder *cluster.CapacityRequest) error {
	err := h.sender.Send(ctx, h.clients.Core.CoreV1().RESTClient().Delete().Namespace(placeholder.Namespace).Resource("pods").Name(placeholder.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, GracePeriodSeconds: ptr.To[int64](0),
			Preconditions: metav1.NewUIDPreconditions(placeholder.UID),
		}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && kube.IsOtherUID(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete placeholder pod %s: %w", placeholder.Key, kube.Refused(err))
	}
	return nil
}

// build returns the placeholder of a pod. The garbage collector deletes it with the pod, which owns it. It has no labels of the pod, so
// that no Service, ReplicaSet or disruption budget selects it.
func (h *Placeholders) build(p *corev1.Pod, size cluster.Resources) *corev1.Pod {
	requests, limits := othersOf(p)
	maps.Copy(requests, kube.Quantities(size))
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: cluster.PlaceholderFor(p.Namespace, string(p.UID)).Name,
			Labels: map[string]string{projection.PlaceholderLabel: "true", "app.kubernetes.io/managed-by": "podfit"},
			Annotations: map[string]string{
				projection.PlaceholderUID: string(p.UID), projection.PlaceholderPod: p.Name,
				"karpenter.sh/do-not-disrupt": "true",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}},
		},
		Spec: corev1.PodSpec{
			PriorityClassName: projection.PlaceholderClass,
			NodeSelector:      p.Spec.NodeSelector, Affinity: p.Spec.Affinity, Tolerations: p.Spec.Tolerations,
			TopologySpreadConstraints: p.Spec.TopologySpreadConstraints,
			SchedulerName:             p.Spec.SchedulerName, RuntimeClassName: p.Spec.RuntimeClassName,
			ImagePullSecrets:             p.Spec.ImagePullSecrets,
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65535), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "pause", Image: h.image,
				Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// othersOf returns the requests of a pod for other resources than CPU and memory, such as devices, which the scheduler counts too, and
// their limits where Kubernetes requires them.
func othersOf(p *corev1.Pod) (requests, limits corev1.ResourceList) {
	requests, limits = corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.Spec.Containers {
		for name, amount := range p.Spec.Containers[i].Resources.Requests {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
				continue
			}
			sum := requests[name]
			sum.Add(amount)
			requests[name] = sum
			if name != corev1.ResourceEphemeralStorage {
				limits[name] = sum
			}
		}
	}
	return requests, limits
}
