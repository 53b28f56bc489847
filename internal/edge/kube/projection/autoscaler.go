// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
)

// maxPerAutoscaler bounds the container policies and the container recommendations that are kept of one object. No pod has as
// many containers. An object of 1.5 MB can hold 70,000 of them, and they would take fifty times its size in memory.
const maxPerAutoscaler = 1024

// Autoscaler returns the projection of an autoscaler. It never fails: an invalid field gets its default, and an unknown update
// mode is Off, in which no pod is changed.
func Autoscaler(o *v1.VerticalPodAutoscaler) *cluster.Autoscaler {
	a := &cluster.Autoscaler{
		Key:          cluster.Key{Namespace: o.Namespace, Name: o.Name},
		UID:          string(o.UID),
		Created:      o.CreationTimestamp.UTC(),
		Generation:   o.Generation,
		Boost:        boost(o.Spec.StartupBoost),
		Policies:     policies(o.Spec.ResourcePolicy),
		Advice:       advice(o.Status.Recommendation),
		IntegerCPU:   integerCPU(o.Annotations),
		Rules:        Rules(o.Annotations),
		Canary:       canary(o.Annotations),
		Guards:       guards(o.Annotations),
		CPULimits:    limitsOf(cluster.CPU, o.Annotations),
		MemoryLimits: limitsOf(cluster.Memory, o.Annotations),
		Learning:     learning(o.Annotations),
		OptedIn:      o.Labels[v1alpha1.LabelNamespace] == o.Namespace,
		MakeRoom:     shortAnnotation(o.Annotations[v1.AnnotationMakeRoom]),
		Mover:        shortAnnotation(o.Annotations[v1.AnnotationMover]),

		PreserveScalePoint: o.Annotations[v1alpha1.AnnotationHPA] == v1alpha1.PreserveScalePoint,
	}
	a.AdvisedSince = a.Created
	a.OptInEnded, _ = time.Parse(time.RFC3339, o.Annotations[v1alpha1.AnnotationOptInEnded]) // zero if it is invalid
	if t := o.Spec.TargetRef; t != nil {
		a.Target = Workload(t.APIVersion, t.Kind, o.Namespace, t.Name)
		a.APIVersion = t.APIVersion
	}
	if r := o.Spec.Recommenders; len(r) > 0 && r[0] != nil {
		a.Recommender = r[0].Name
	}
	if p := o.Spec.UpdatePolicy; p != nil {
		updatePolicy(a, p)
	}
	a.StatusOutdated = ptr.Deref(o.Status.ObservedGeneration, o.Generation) != o.Generation
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		switch c.Type {
		case v1alpha1.ConditionSizingProfileUsable:
			if c.Status == corev1.ConditionFalse {
				a.ProfileProblem = c.Reason
			}
		case v1alpha1.ConditionUpdating:
			a.Frozen = c.Reason == decision.Frozen.String()
		case v1.RecommendationProvided:
			if c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
				a.AdvisedSince = c.LastTransitionTime.UTC()
			}
		case v1.FetchingHistory:
			a.FetchingHistory = c.Status == corev1.ConditionTrue
		}
		if c.Type == v1alpha1.ConditionUpdating || slices.Contains(v1alpha1.Conditions(), string(c.Type)) {
			a.Remarked = true
		}
	}
	return a
}

// longestMakeRoom bounds the part of an invalid annotation that is kept for messages.
const longestMakeRoom = 40

func shortAnnotation(value string) string {
	if len(value) > longestMakeRoom {
		value = strings.ToValidUTF8(value[:longestMakeRoom], "")
	}
	return strings.Clone(value)
}

func updatePolicy(a *cluster.Autoscaler, p *v1.PodUpdatePolicy) {
	if p.UpdateMode != nil {
		mode, ok := cluster.ParseMode(string(*p.UpdateMode))
		if !ok {
			mode = cluster.Off
		}
		a.Mode = mode
	}
	a.MinReplicas = max(ptr.Deref(p.MinReplicas, 0), 0)
	a.EvictAfterOOM = seconds(int64(ptr.Deref(p.EvictAfterOOMSeconds, 0)))
	for _, r := range p.EvictionRequirements {
		if r == nil {
			continue
		}
		a.Requirements = append(a.Requirements, cluster.EvictionRequirement{
			Resources: kube.ResourceSet(r.Resources),
			Higher:    r.ChangeRequirement == v1.TargetHigherThanRequests,
		})
	}
}

func policies(p *v1.PodResourcePolicy) []cluster.ContainerPolicy {
	if p == nil || len(p.ContainerPolicies) == 0 {
		return nil
	}
	return cluster.Each(p.ContainerPolicies[:min(len(p.ContainerPolicies), maxPerAutoscaler)], containerPolicy)
}

func containerPolicy(p *v1.ContainerResourcePolicy) cluster.ContainerPolicy {
	out := cluster.ContainerPolicy{
		Container:      p.ContainerName,
		Off:            ptr.Deref(p.Mode, "") == v1.ContainerScalingModeOff,
		MinAllowed:     kube.Amounts(p.MinAllowed),
		MaxAllowed:     kube.Amounts(p.MaxAllowed),
		RequestsOnly:   ptr.Deref(p.ControlledValues, "") == v1.ContainerControlledValuesRequestsOnly,
		Boost:          boost(p.StartupBoost),
		MemoryInterval: seconds(int64(ptr.Deref(p.MemoryAggregationIntervalSeconds, 0))),
		MemoryCount:    max(ptr.Deref(p.MemoryAggregationIntervalCount, 0), 0),
	}
	if p.ControlledResources != nil {
		out.Controlled = kube.ResourceSet(*p.ControlledResources)
		out.ControlsSet = true
	}
	if q := p.OOMBumpUpRatio; q != nil {
		out.OOMBumpRatio = float64(q.MilliValue()) / 1000
	}
	if q := p.OOMMinBumpUp; q != nil {
		out.OOMMinBump = kube.Amount(cluster.Memory, *q)
		out.OOMMinBumpSet = true
	}
	return out
}

// boost returns a start-up boost, nil if it has no valid amount.
func boost(b *v1.StartupBoost) *cluster.Boost {
	if b == nil || b.CPU == nil {
		return nil
	}
	c := b.CPU
	duration := seconds(int64(ptr.Deref(c.DurationSeconds, 0)))
	switch {
	case c.Type == v1.QuantityStartupBoostType && c.Quantity != nil:
		return &cluster.Boost{ByQuantity: true, Quantity: kube.Amount(cluster.CPU, *c.Quantity), Duration: duration}
	case c.Type == v1.FactorStartupBoostType && ptr.Deref(c.Factor, 0) >= 1:
		return &cluster.Boost{Factor: *c.Factor, Duration: duration}
	}
	return nil
}

// seconds returns a duration of s seconds; a negative one is zero, which means "not set" in all fields.
func seconds(s int64) time.Duration {
	return time.Duration(min(max(s, 0), math.MaxInt64/int64(time.Second))) * time.Second
}

func advice(r *v1.RecommendedPodResources) []cluster.Advice {
	if r == nil || len(r.ContainerRecommendations) == 0 {
		return nil
	}
	all := r.ContainerRecommendations[:min(len(r.ContainerRecommendations), maxPerAutoscaler)]
	out := cluster.Each(all, func(c *v1.RecommendedContainerResources) cluster.Advice {
		return cluster.Advice{
			Container: c.ContainerName,
			Estimate: cluster.Estimate{
				Lower:  kube.Amounts(c.LowerBound),
				Target: kube.Amounts(c.Target),
				Upper:  kube.Amounts(c.UpperBound),
			},
			Uncapped:    kube.Amounts(c.UncappedTarget),
			Learnt:      learntBoost(c.UncappedTarget),
			Groups:      groups(c.UncappedTarget),
			Shared:      shared(c.UncappedTarget),
			MemoryLimit: memoryOf(c.UncappedTarget, v1alpha1.MemoryLimit),
			MemoryPeak:  memoryOf(c.UncappedTarget, v1alpha1.MemoryPeak),
		}
	})
	slices.SortStableFunc(out, func(a, b cluster.Advice) int { return strings.Compare(a.Container, b.Container) })
	return out
}

// integerCPU returns the containers whose CPU an annotation rounds up to whole cores, sorted.
func integerCPU(annotations map[string]string) []string {
	var out []string
	for key, value := range annotations {
		name, ok := strings.CutPrefix(key, v1.AnnotationPostProcessorPrefix)
		if !ok || value != "true" {
			continue
		}
		name, ok = strings.CutSuffix(name, v1.AnnotationIntegerCPUSuffix)
		if ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
