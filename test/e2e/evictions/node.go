// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// hollowNode is the name of the node on which all pods run.
const hollowNode = "hollow"

// A node is a hollow node: it reports its pods as running and ready, and removes those that are deleted. It runs nothing.
type node struct {
	kubernetes.Interface
	starts time.Duration // from the first sight of a pod until it is ready

	mu   sync.Mutex // guards the following
	seen map[string]bool
	err  error // the first failed request
}

// newClient returns a client with the rights of an administrator. It has no rate limit and uses protobuf, which costs the API server
// less than JSON.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.WarningHandler = rest.NoWarnings{}
	return kubernetes.NewForConfig(config)
}

// startNode creates the Node object and its lease, and renews the lease until ctx ends.
func startNode(ctx context.Context, k kubernetes.Interface, starts time.Duration) (*node, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("20000"), corev1.ResourceMemory: resource.MustParse("20000Gi"), corev1.ResourcePods: resource.MustParse("20000"),
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: hollowNode},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		},
	}
	if _, err := k.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create the node: %w", err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: hollowNode, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(hollowNode), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	lease, err := k.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the lease of the node: %w", err)
	}
	n := &node{Interface: k, starts: starts, seen: map[string]bool{}}
	go n.renew(ctx, lease)
	return n, nil
}

// renew renews the lease of the node, so that the node stays ready.
func (n *node) renew(ctx context.Context, lease *coordinationv1.Lease) {
	t := time.NewTicker(10 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		next, err := n.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
		if err != nil {
			n.failed(ctx, fmt.Errorf("renew the lease of the node: %w", err))
			continue
		}
		lease = next
	}
}

// saw handles a state of a pod of the node. It does not wait for the requests that follow.
func (n *node) saw(ctx context.Context, pod *corev1.Pod) {
	deleted := pod.DeletionTimestamp != nil
	key := fmt.Sprintf("%s %v", pod.UID, deleted)
	n.mu.Lock()
	known := n.seen[key]
	n.seen[key] = true
	n.mu.Unlock()
	switch {
	case known:
	case deleted:
		go n.remove(ctx, pod)
	case pod.Status.Phase == corev1.PodPending:
		go n.start(ctx, pod)
	}
}

// start reports a pod as ready after its start time.
func (n *node) start(ctx context.Context, pod *corev1.Pod) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(n.starts):
	}
	now := metav1.Now()
	pod = pod.DeepCopy()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true), Resources: &c.Resources, AllocatedResources: c.Resources.Requests,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	_, err := n.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // the pod was deleted meanwhile
		n.failed(ctx, fmt.Errorf("report pod %s as ready: %w", pod.Name, err))
	}
}

// remove removes a pod that is being deleted.
func (n *node) remove(ctx context.Context, pod *corev1.Pod) {
	err := n.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		n.failed(ctx, fmt.Errorf("remove pod %s: %w", pod.Name, err))
	}
}

// failed records the first failed request, unless it failed because ctx has ended.
func (n *node) failed(ctx context.Context, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil && ctx.Err() == nil {
		n.err = err
	}
}

// failure returns the first failed request.
func (n *node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
