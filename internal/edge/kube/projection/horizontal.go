// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
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
