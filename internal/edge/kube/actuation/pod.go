// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package actuation sends the requests that change workloads: it resizes, annotates, evicts and deletes pods, cordons nodes, sets the
// replicas of Deployments for surges, and sets the targets of HorizontalPodAutoscalers.
//
// Each request requires that the object is the one that the decision was about. It is sent once, and its error has the reason for which the
// API server refused it (package kube). The package does not retry and makes no decisions.
package actuation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// A PodWriter changes pods. Each change has the UID of the pod as a precondition, so that it cannot affect another pod with the same
// name. An error wraps one of the refusals of package kube, or is transient. The PodWriter does not retry; the caller does.
type PodWriter struct {
	core   rest.Interface
	sender kube.Sender
}

// NewPodWriter returns a PodWriter.
func NewPodWriter(c *kube.Clients) *PodWriter { return &PodWriter{core: c.Core.CoreV1().RESTClient()} }

// DryRun returns a PodWriter whose requests the API server checks, with its webhooks and disruption budgets, and does not carry out.
func (w *PodWriter) DryRun() *PodWriter {
	return &PodWriter{core: w.core, sender: kube.Sender{DryRun: true}}
}

// A podPatch is a strategic merge patch: containers are found by name.
type podPatch struct {
	Metadata metadataPatch `json:"metadata"`
	Spec     *specPatch    `json:"spec,omitempty"`
}

type metadataPatch struct {
	UID         string             `json:"uid"`
	Annotations map[string]*string `json:"annotations,omitempty"` // nil removes one
}

type specPatch struct {
	Containers     []containerPatch             `json:"containers,omitempty"`
	InitContainers []containerPatch             `json:"initContainers,omitempty"`
	Resources      *corev1.ResourceRequirements `json:"resources,omitempty"` // pod-level resources
}

type containerPatch struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// Resize sets the requests and limits of the fitted containers of a running pod. Amounts that are not set in fitted are not
// changed.
func (w *PodWriter) Resize(ctx context.Context, p *cluster.Pod, fitted []policy.Fitted) error {
	spec := new(specPatch)
	for i := range fitted {
		f := &fitted[i]
		r := corev1.ResourceRequirements{Requests: kube.Quantities(f.Requests), Limits: kube.Quantities(f.Limits)}
		if r.Requests == nil && r.Limits == nil {
			continue
		}
		list := &spec.Containers
		if f.Sidecar {
			list = &spec.InitContainers
		}
		*list = append(*list, containerPatch{Name: f.Container, Resources: r})
	}
	if len(spec.Containers)+len(spec.InitContainers) == 0 {
		return nil
	}
	if level := fitted[0].PodLevel; level != nil {
		spec.Resources = &corev1.ResourceRequirements{Requests: kube.Quantities(level.Requests), Limits: kube.Quantities(level.Limits)}
	}
	patch := podPatch{Metadata: metadataPatch{UID: p.UID}, Spec: spec}
	if err := w.sender.Patch(ctx, w.core, types.StrategicMergePatchType, "pods", p.Key, patch, "resize"); err != nil {
		return fmt.Errorf("resize pod %s: %w", p.Key, err)
	}
	return nil
}

// Annotate sets annotations of a pod and removes others.
func (w *PodWriter) Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error {
	annotations := make(map[string]*string, len(set)+len(remove))
	for _, k := range remove {
		annotations[k] = nil
	}
	for k, v := range set {
		annotations[k] = &v
	}
	if len(annotations) == 0 {
		return nil
	}
	patch := podPatch{Metadata: metadataPatch{UID: p.UID, Annotations: annotations}}
	if err := w.sender.Patch(ctx, w.core, types.StrategicMergePatchType, "pods", p.Key, patch); err != nil {
		return fmt.Errorf("annotate pod %s: %w", p.Key, err)
	}
	return nil
}

// Evict evicts a pod. The API server enforces disruption budgets: ErrBudget means that one does not allow the eviction now.
func (w *PodWriter) Evict(ctx context.Context, p *cluster.Pod) error {
	err := w.sender.Send(ctx, w.core.Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(p.UID)},
		}))
	if err != nil {
		return fmt.Errorf("evict pod %s: %w", p.Key, kube.RefusedEviction(err))
	}
	return nil
}

// Delete deletes a pod whose state is the one that the watch has delivered: a pod that has changed since, for example because it is
// ready, is not deleted, and the error is ErrBusy. No disruption budget is asked.
func (w *PodWriter) Delete(ctx context.Context, p *cluster.Pod) error {
	if p.Crash == nil {
		return fmt.Errorf("delete pod %s: its resource version is not known", p.Key)
	}
	uid := types.UID(p.UID)
	err := w.sender.Send(ctx, w.core.Delete().Namespace(p.Namespace).Resource("pods").Name(p.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &p.Crash.Version},
		}))
	if err != nil {
		return fmt.Errorf("delete pod %s: %w", p.Key, kube.RefusedEviction(err))
	}
	return nil
}

// Cordon keeps new pods from a node, or admits them again: if others have done that already, the error has a reason of package kube.
func (w *PodWriter) Cordon(ctx context.Context, node string, cordoned bool) error {
	const path = "/spec/unschedulable"
	verb, ops := "uncordon", []kube.PatchOp{{Op: "test", Path: path, Value: true}, {Op: "remove", Path: path}}
	if cordoned {
		verb, ops = "cordon", []kube.PatchOp{{Op: "add", Path: path, Value: true}}
	}
	err := w.sender.Patch(ctx, w.core, types.JSONPatchType, "nodes", cluster.Key{Name: node}, ops)
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb, node, err)
	}
	return nil
}
