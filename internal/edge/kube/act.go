// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// An Actor changes pods. Each change has the UID of the pod as a precondition, so that it cannot affect another pod with the same
// name. An error wraps one of the refusals, or is transient. The Actor does not retry; the caller does.
type Actor struct{ core rest.Interface }

// NewActor returns an Actor.
func NewActor(c *Clients) *Actor { return &Actor{core: c.Core.CoreV1().RESTClient()} }

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
	Containers []containerPatch             `json:"containers"`
	Resources  *corev1.ResourceRequirements `json:"resources,omitempty"` // pod-level resources
}

type containerPatch struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// Resize sets the requests and limits of the fitted containers of a running pod. Amounts that are not set in fitted are not
// changed.
func (a *Actor) Resize(ctx context.Context, p *cluster.Pod, fitted []policy.Fitted) error {
	spec := new(specPatch)
	for i := range fitted {
		f := &fitted[i]
		r := corev1.ResourceRequirements{Requests: Quantities(f.Requests), Limits: Quantities(f.Limits)}
		if r.Requests != nil || r.Limits != nil {
			spec.Containers = append(spec.Containers, containerPatch{Name: f.Container, Resources: r})
		}
	}
	if len(spec.Containers) == 0 {
		return nil
	}
	if level := fitted[0].PodLevel; level != nil {
		spec.Resources = &corev1.ResourceRequirements{Requests: Quantities(level.Requests), Limits: Quantities(level.Limits)}
	}
	patch := podPatch{Metadata: metadataPatch{UID: p.UID}, Spec: spec}
	if err := a.patch(ctx, p, patch, "resize"); err != nil {
		return fmt.Errorf("resize pod %s: %w", p.Key, err)
	}
	return nil
}

// Annotate sets annotations of a pod and removes others.
func (a *Actor) Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error {
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
	if err := a.patch(ctx, p, patch); err != nil {
		return fmt.Errorf("annotate pod %s: %w", p.Key, err)
	}
	return nil
}

func (a *Actor) patch(ctx context.Context, p *cluster.Pod, patch podPatch, subresource ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	ctx, sent := recordSending(ctx)
	return sent.classify(Refused(a.core.Patch(types.StrategicMergePatchType).Namespace(p.Namespace).Resource("pods").Name(p.Name).
		SubResource(subresource...).MaxRetries(0).Body(data).Do(ctx).Error()))
}

// Evict evicts a pod. The API server enforces disruption budgets: ErrBudget means that one does not allow the eviction now.
func (a *Actor) Evict(ctx context.Context, p *cluster.Pod) error {
	uid := types.UID(p.UID)
	ctx, sent := recordSending(ctx)
	err := sent.classify(a.core.Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
		MaxRetries(0).
		Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		}).Do(ctx).Error())
	if err != nil {
		return fmt.Errorf("evict pod %s: %w", p.Key, refusedEviction(err))
	}
	return nil
}

// Delete deletes a pod whose state is the one that the watch has delivered: a pod that has changed since, for example because it is
// ready, is not deleted, and the error is ErrBusy. No disruption budget is asked.
func (a *Actor) Delete(ctx context.Context, p *cluster.Pod) error {
	if p.Crash == nil {
		return fmt.Errorf("delete pod %s: its resource version is not known", p.Key)
	}
	uid := types.UID(p.UID)
	ctx, sent := recordSending(ctx)
	err := sent.classify(a.core.Delete().Namespace(p.Namespace).Resource("pods").Name(p.Name).
		MaxRetries(0).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &p.Crash.Version},
		}).Do(ctx).Error())
	if err != nil {
		return fmt.Errorf("delete pod %s: %w", p.Key, refusedEviction(err))
	}
	return nil
}

// refusedEviction adds the reason to an error of an eviction or deletion. Only a conflict about the UID means that another pod has this name; other conflicts
// are transient.
func refusedEviction(err error) error {
	if errors.Is(reasonOf(err), ErrConflict) && !isOtherPod(err) {
		return refusal{ErrBusy, err}
	}
	return Refused(err)
}
