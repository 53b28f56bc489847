// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// PodLabels returns the pods that a label selector selects, with the value of one label, "" if a pod does not have it. Namespace "" means
// all namespaces. It reads only the metadata of pods.
func (c *Clients) PodLabels(ctx context.Context, namespace, selector, label string) (map[cluster.Key]string, error) {
	out := map[cluster.Key]string{}
	o := metav1.ListOptions{LabelSelector: selector, Limit: PageSize}
	pods := c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	for {
		page, err := pods.List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list labels of pods: %w", err)
		}
		for i := range page.Items {
			m := &page.Items[i]
			out[cluster.Key{Namespace: m.Namespace, Name: m.Name}] = m.Labels[label]
		}
		o.Continue = page.Continue
		if o.Continue == "" {
			return out, nil
		}
	}
}
