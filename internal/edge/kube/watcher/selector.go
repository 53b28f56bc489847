// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Selector reads the pod selector of a controller from the API server. It is for deleted pods of which only the labels are
// known. For a controller without a selector, or of a kind that is not built in, the selector selects nothing.
func (w *World) Selector(ctx context.Context, c cluster.Workload) (labels.Selector, error) {
	if !projection.KindOf(c).IsWellKnown() {
		return labels.Nothing(), nil
	}
	read, err := w.readSelector(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s: %w", c, kube.Refused(err))
	}
	selector, err := metav1.LabelSelectorAsSelector(read)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s: %w", c, err)
	}
	return selector, nil
}

// readSelector reads the field of a controller that selects its pods.
func (w *World) readSelector(ctx context.Context, c cluster.Workload) (*metav1.LabelSelector, error) {
	apps := w.clients.Core.AppsV1()
	batch := w.clients.Core.BatchV1()
	var o metav1.GetOptions
	switch c.Kind {
	case "ReplicaSet":
		x, err := apps.ReplicaSets(c.Namespace).Get(ctx, c.Name, o)
		return x.Spec.Selector, err
	case "StatefulSet":
		x, err := apps.StatefulSets(c.Namespace).Get(ctx, c.Name, o)
		return x.Spec.Selector, err
	case "DaemonSet":
		x, err := apps.DaemonSets(c.Namespace).Get(ctx, c.Name, o)
		return x.Spec.Selector, err
	case "ReplicationController":
		x, err := w.clients.Core.CoreV1().ReplicationControllers(c.Namespace).Get(ctx, c.Name, o)
		return exactly(x.Spec.Selector), err
	case "Job":
		x, err := batch.Jobs(c.Namespace).Get(ctx, c.Name, o)
		return x.Spec.Selector, err
	case "CronJob":
		x, err := batch.CronJobs(c.Namespace).Get(ctx, c.Name, o)
		return exactly(x.Spec.JobTemplate.Spec.Template.Labels), err
	}
	x, err := apps.Deployments(c.Namespace).Get(ctx, c.Name, o)
	return x.Spec.Selector, err
}

// exactly selects objects with all of the labels, and nothing if there are no labels.
func exactly(m map[string]string) *metav1.LabelSelector {
	if len(m) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: m}
}
