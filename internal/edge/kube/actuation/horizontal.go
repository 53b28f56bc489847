// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A HorizontalWriter changes HorizontalPodAutoscalers. It does not retry; the caller does.
type HorizontalWriter struct {
	client rest.Interface
	sender kube.Sender
}

// NewHorizontalWriter returns a HorizontalWriter.
func NewHorizontalWriter(c *kube.Clients) *HorizontalWriter {
	return &HorizontalWriter{client: c.Core.AutoscalingV2().RESTClient()}
}

// Record stores the records of scale points on an HPA. It changes no target.
func (w *HorizontalWriter) Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	text, err := projection.ScalePointsAnnotation(points)
	if err != nil {
		return fmt.Errorf("record scale points of HPA %s: %w", h.Key, err)
	}
	patch := map[string]any{"metadata": metadataPatch{UID: h.UID, Annotations: map[string]*string{v1alpha1.AnnotationScalePoint: &text}}}
	if err := w.sender.Patch(ctx, w.client, types.MergePatchType, "horizontalpodautoscalers", h.Key, patch); err != nil {
		return fmt.Errorf("record scale points of HPA %s: %w", h.Key, err)
	}
	return nil
}

// SetTargets sets the targets and the records of an HPA in one request. Without records, it removes the annotation. The HPA must exist
// with the targets and metrics that h has: if others have changed them, nothing is written.
func (w *HorizontalWriter) SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	ops := []kube.PatchOp{{Op: "test", Path: "/metadata/uid", Value: h.UID}}
	for i := range h.Utilization {
		u := &h.Utilization[i]
		to, ok := percent[u.Index]
		if !ok {
			continue
		}
		at := "/spec/metrics/" + strconv.Itoa(u.Index) + "/resource"
		if u.Container != "" {
			at = "/spec/metrics/" + strconv.Itoa(u.Index) + "/containerResource"
			ops = append(ops, kube.PatchOp{Op: "test", Path: at + "/container", Value: u.Container})
		}
		ops = append(ops,
			kube.PatchOp{Op: "test", Path: at + "/name", Value: u.Resource.String()},
			kube.PatchOp{Op: "test", Path: at + "/target/averageUtilization", Value: u.Percent},
			kube.PatchOp{Op: "replace", Path: at + "/target/averageUtilization", Value: to})
	}
	key := kube.AnnotationPath(v1alpha1.AnnotationScalePoint)
	if len(points) == 0 {
		ops = append(ops, kube.PatchOp{Op: "remove", Path: key})
	} else {
		text, err := projection.ScalePointsAnnotation(points)
		if err != nil {
			return fmt.Errorf("set targets of HPA %s: %w", h.Key, err)
		}
		ops = append(ops, kube.PatchOp{Op: "replace", Path: key, Value: text})
	}
	if err := w.sender.Patch(ctx, w.client, types.JSONPatchType, "horizontalpodautoscalers", h.Key, ops); err != nil {
		return fmt.Errorf("set targets of HPA %s: %w", h.Key, err)
	}
	return nil
}
