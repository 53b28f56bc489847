// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// HorizontalAutoscaler returns the projection of a HorizontalPodAutoscaler. Metrics that are incomplete or invalid are left out: the HPA
// does not scale by them either.
func HorizontalAutoscaler(o *autoscalingv2.HorizontalPodAutoscaler) *cluster.HorizontalAutoscaler {
	t := o.Spec.ScaleTargetRef
	h := &cluster.HorizontalAutoscaler{
		Key:    cluster.Key{Namespace: o.Namespace, Name: o.Name},
		UID:    string(o.UID),
		Target: Workload(t.APIVersion, t.Kind, o.Namespace, t.Name),
		Points: ScalePoints(o.Annotations[v1alpha1.AnnotationScalePoint]),
	}
	for i := range min(len(o.Spec.Metrics), cluster.MostMetrics) {
		if u, ok := utilizationTarget(&o.Spec.Metrics[i]); ok {
			u.Index = i
			h.Utilization = append(h.Utilization, u)
		}
	}
	return h
}

// utilizationTarget returns a metric that depends on requests. It returns false for all other metrics.
func utilizationTarget(m *autoscalingv2.MetricSpec) (u cluster.UtilizationTarget, ok bool) {
	var name corev1.ResourceName
	var target autoscalingv2.MetricTarget
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		name = m.Resource.Name
		target = m.Resource.Target
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil && m.ContainerResource.Container != "":
		name = m.ContainerResource.Name
		u.Container = m.ContainerResource.Container
		target = m.ContainerResource.Target
	default:
		return u, false
	}
	u.Resource, ok = cluster.ParseResource(string(name))
	// Which field is set decides, and not the type of the target: the HPA controller does the same.
	if !ok || target.AverageValue != nil || target.AverageUtilization == nil || *target.AverageUtilization <= 0 {
		return u, false
	}
	u.Percent = *target.AverageUtilization
	return u, true
}

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
		request, err := kube.ParseQuantity(s.Request)
		if !known || err != nil || kube.Amount(res, request) <= 0 || s.Percent <= 0 || s.Set <= 0 || s.Resets < 0 || !kube.HasJSONForm(s.ResetAt) {
			return nil
		}
		out = append(out, cluster.ScalePoint{
			Resource: res, Container: s.Container, Base: kube.Amount(res, request), Percent: s.Percent, Set: s.Set, Resets: s.Resets, ResetAt: s.ResetAt,
		})
	}
	return out
}

// ScalePointsAnnotation returns the value of the annotation podfit.dev/scale-point.
func ScalePointsAnnotation(points []cluster.ScalePoint) (string, error) {
	stored := cluster.Each(points, func(p *cluster.ScalePoint) scalePoint {
		request := kube.Quantity(p.Resource, p.Base)
		return scalePoint{
			Resource: p.Resource.String(), Container: p.Container, Request: request.String(), Percent: p.Percent, Set: p.Set, Resets: p.Resets, ResetAt: p.ResetAt.UTC(),
		}
	})
	text, err := json.Marshal(stored)
	return string(text), err
}
