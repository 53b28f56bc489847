// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
)

// A scalePoint is the JSON form of a cluster.ScalePoint.
type scalePoint struct {
	Resource  string    `json:"resource"`
	Container string    `json:"container,omitempty"`
	Request   string    `json:"request"` // quantity
	Percent   int32     `json:"percent"`
	Set       int32     `json:"set"`
	Resets    int       `json:"resets,omitempty"`
	ResetAt   time.Time `json:"resetAt,omitzero"`
}

// maxScalePointBytes bounds the annotation that is read: anyone who may edit the HPA can write it.
const maxScalePointBytes = 8 << 10

// ScalePoints returns the records in the annotation podfit.dev/scale-point. It returns nil if one of them is invalid.
func ScalePoints(annotation string) []cluster.ScalePoint {
	if annotation == "" || len(annotation) > maxScalePointBytes {
		return nil
	}
	var stored []scalePoint
	if err := json.Unmarshal([]byte(annotation), &stored); err != nil || len(stored) > cluster.MostMetrics {
		return nil
	}
	out := make([]cluster.ScalePoint, 0, len(stored))
	for _, s := range stored {
		res, known := cluster.ParseResource(s.Resource)
		request, err := resource.ParseQuantity(s.Request)
		if !known || err != nil || Amount(res, request) <= 0 || s.Percent <= 0 || s.Set <= 0 || s.Resets < 0 {
			return nil
		}
		out = append(out, cluster.ScalePoint{
			Resource: res, Container: s.Container, Base: Amount(res, request), Percent: s.Percent, Set: s.Set, Resets: s.Resets, ResetAt: s.ResetAt,
		})
	}
	return out
}

// scalePointsJSON returns the value of the annotation.
func scalePointsJSON(points []cluster.ScalePoint) (string, error) {
	stored := make([]scalePoint, 0, len(points))
	for _, p := range points {
		request := Quantity(p.Resource, p.Base)
		stored = append(stored, scalePoint{
			Resource: p.Resource.String(), Container: p.Container, Request: request.String(), Percent: p.Percent, Set: p.Set, Resets: p.Resets, ResetAt: p.ResetAt.UTC(),
		})
	}
	text, err := json.Marshal(stored)
	return string(text), err
}

// A HorizontalWriter changes HorizontalPodAutoscalers. It does not retry; the caller does.
type HorizontalWriter struct{ client rest.Interface }

// NewHorizontalWriter returns a HorizontalWriter.
func NewHorizontalWriter(c *Clients) *HorizontalWriter {
	return &HorizontalWriter{client: c.Core.AutoscalingV2().RESTClient()}
}

// Record stores the records of scale points on an HPA. It changes no target.
func (w *HorizontalWriter) Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	text, err := scalePointsJSON(points)
	if err != nil {
		return fmt.Errorf("record scale points of HPA %s: %w", h.Key, err)
	}
	patch := map[string]any{"metadata": metadataPatch{UID: h.UID, Annotations: map[string]*string{v1alpha1.AnnotationScalePoint: &text}}}
	if err := w.patch(ctx, h, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("record scale points of HPA %s: %w", h.Key, err)
	}
	return nil
}

// SetTargets sets the targets and the records of an HPA in one request. Without records, it removes the annotation. The HPA must exist
// with the targets and metrics that h has: if others have changed them, nothing is written.
func (w *HorizontalWriter) SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	const annotation = "/metadata/annotations/"
	ops := []PatchOp{{Op: "test", Path: "/metadata/uid", Value: h.UID}}
	for i := range h.Utilization {
		u := &h.Utilization[i]
		to, ok := percent[u.Index]
		if !ok {
			continue
		}
		at := "/spec/metrics/" + strconv.Itoa(u.Index) + "/resource"
		if u.Container != "" {
			at = "/spec/metrics/" + strconv.Itoa(u.Index) + "/containerResource"
			ops = append(ops, PatchOp{Op: "test", Path: at + "/container", Value: u.Container})
		}
		ops = append(ops,
			PatchOp{Op: "test", Path: at + "/name", Value: u.Resource.String()},
			PatchOp{Op: "test", Path: at + "/target/averageUtilization", Value: u.Percent},
			PatchOp{Op: "replace", Path: at + "/target/averageUtilization", Value: to})
	}
	key := annotation + strings.NewReplacer("~", "~0", "/", "~1").Replace(v1alpha1.AnnotationScalePoint)
	if len(points) == 0 {
		ops = append(ops, PatchOp{Op: "remove", Path: key})
	} else {
		text, err := scalePointsJSON(points)
		if err != nil {
			return fmt.Errorf("set targets of HPA %s: %w", h.Key, err)
		}
		ops = append(ops, PatchOp{Op: "replace", Path: key, Value: text})
	}
	if err := w.patch(ctx, h, types.JSONPatchType, ops); err != nil {
		return fmt.Errorf("set targets of HPA %s: %w", h.Key, err)
	}
	return nil
}

func (w *HorizontalWriter) patch(ctx context.Context, h *cluster.HorizontalAutoscaler, kind types.PatchType, patch any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	ctx, sent := recordSending(ctx)
	return sent.classify(Refused(w.client.Patch(kind).Namespace(h.Namespace).Resource("horizontalpodautoscalers").Name(h.Name).
		MaxRetries(0).Body(data).Do(ctx).Error()))
}
