// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inspection reads what no watch delivers, when a person asks for it: the labels of pods, the Services and Prometheus
// objects of the cluster and the way to them through the API server, the UID of the cluster, and the rights of a viewer of the web page.
//
// Each function sends its requests when it is called and stores nothing. It changes nothing in the cluster.
package inspection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Labels reads the labels of a pod, each as "key=value", sorted.
func Labels(ctx context.Context, c *kube.Clients, key cluster.Key) ([]string, error) {
	p, err := c.Core.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get pod %s: %w", key, err)
	}
	return projection.Pairs(p.Labels, nil), nil
}

// PodLabels returns the pods that a label selector selects, with the value of one label, "" if a pod does not have it. Namespace "" means
// all namespaces. It reads only the metadata of pods.
func PodLabels(ctx context.Context, c *kube.Clients, namespace, selector, label string) (map[cluster.Key]string, error) {
	out := map[cluster.Key]string{}
	o := metav1.ListOptions{LabelSelector: selector, Limit: kube.PageSize}
	pods := c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	err := kube.EachPage(ctx, o, pods.List, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			m := &page.Items[i]
			out[cluster.Key{Namespace: m.Namespace, Name: m.Name}] = m.Labels[label]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list labels of pods: %w", err)
	}
	return out, nil
}
