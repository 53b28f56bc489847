// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	vpav1 "podfit.dev/podfit/api/v1"
)

const (
	namespace  = "evictions"
	appLabel   = "app"
	replicas   = 2 // of each ReplicaSet
	minReady   = 1 // --eviction-tolerance of 0.5 allows one of two pods to be unavailable, and the PodDisruptionBudget requires one
	concurrent = 16
)

// requested returns requests of a container.
func requested(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// The requests in the ReplicaSets, and the recommendation.
var (
	before = requested("100m", "128Mi")
	lower  = requested("150m", "192Mi")
	target = requested("200m", "256Mi")
	upper  = requested("400m", "512Mi")
)

// isRight reports whether a pod has the recommended requests.
func isRight(pod *corev1.Pod) bool {
	has := pod.Spec.Containers[0].Resources.Requests
	return has.Cpu().Cmp(*target.Cpu()) == 0 && has.Memory().Cmp(*target.Memory()) == 0
}

func name(i int) string { return fmt.Sprintf("web-%04d", i) }

// replicaSet returns a workload. Its pods are assigned to the hollow node, so that no scheduler is needed.
func replicaSet(i int) *appsv1.ReplicaSet {
	labels := map[string]string{appLabel: name(i)}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeName: hollowNode, AutomountServiceAccountToken: new(false),
					Containers: []corev1.Container{{Name: "app", Image: "test/app", Resources: corev1.ResourceRequirements{Requests: before}}},
				},
			},
		},
	}
}

func budget(i int) *policyv1.PodDisruptionBudget {
	least := intstr.FromInt32(minReady)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name(i)}}},
	}
}

func autoscaler(i int) *vpav1.VerticalPodAutoscaler {
	mode := vpav1.UpdateModeRecreate
	return &vpav1.VerticalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: vpav1.GroupVersion().String(), Kind: "VerticalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name(i)},
			UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: &mode},
		},
	}
}

// each calls do for all numbers below count, some at a time. It begins no more calls after an error, and returns the first one.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range concurrent {
		workers.Go(func() {
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < count && ctx.Err() == nil; i++ {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	return context.Cause(ctx)
}

// createWorkloads creates the ReplicaSets, and their budgets.
func (b *bench) createWorkloads(ctx context.Context) error {
	return each(ctx, b.VPAs, func(ctx context.Context, i int) error {
		if _, err := b.client.AppsV1().ReplicaSets(namespace).Create(ctx, replicaSet(i), metav1.CreateOptions{}); err != nil || !b.Budgets {
			return err
		}
		_, err := b.client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, budget(i), metav1.CreateOptions{})
		return err
	})
}

// recommend creates the VPAs, and writes their recommendations as a recommender.
func (b *bench) recommend(ctx context.Context, recommender dynamic.Interface) error {
	resource := vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)
	status, err := json.Marshal(map[string]any{"status": vpav1.VerticalPodAutoscalerStatus{
		Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			{ContainerName: "app", LowerBound: lower, Target: target, UpperBound: upper},
		}},
	}})
	if err != nil {
		return err
	}
	return each(ctx, b.VPAs, func(ctx context.Context, i int) error {
		object, err := unstructuredOf(autoscaler(i))
		if err != nil {
			return err
		}
		if _, err := b.cluster.Dynamic.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = recommender.Resource(resource).Namespace(namespace).Patch(ctx, name(i), types.MergePatchType, status, metav1.PatchOptions{}, "status")
		return err
	})
}

func unstructuredOf(a *vpav1.VerticalPodAutoscaler) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	return &unstructured.Unstructured{Object: fields}, err
}
