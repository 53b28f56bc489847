// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// CPULimits is what is done with the CPU limits of a new pod whose autoscaler has them removed. The zero value says that there is nothing to
// remove.
type CPULimits struct {
	Removed []string       // the containers whose CPU limit is removed
	Kept    []KeptCPULimit // the containers whose CPU limit must stay, in the order of the pod
}

// A KeptCPULimit is a CPU limit that is not removed, and why.
type KeptCPULimit struct {
	Container string
	Kind      KeptKind
	Refusal   admissible.Refusal // if Kind is KeptForAPIServer
}

// KeptKind is the reason why a CPU limit is not removed, as a clause.
type KeptKind string

// The reasons. The first ones are about a container, the others about the whole pod.
const (
	KeptByPolicy        KeptKind = "its policy has controlledValues RequestsOnly"
	KeptForWholeCores   KeptKind = "an annotation of the VPA requires whole cores" // a pod may get them for itself only with limits
	KeptForRequest      KeptKind = "it has no cpu request"                         // without the limit it would have neither
	KeptForJVM          KeptKind = "without it, a JVM uses all cores of the node unless ActiveProcessorCount is set"
	KeptForDotNet       KeptKind = "without it, .NET uses all cores of the node unless DOTNET_PROCESSOR_COUNT is set"
	KeptInPodLevel      KeptKind = "the pod has a pod-level cpu limit" // which bounds the container anyway
	KeptByDefault       KeptKind = "a LimitRange adds a default cpu limit"
	KeptForUnknownQuota KeptKind = "the ResourceQuotas of the namespace are not known" // one may require the limit
	KeptForAPIServer    KeptKind = "the API server would refuse the pod without it"
)

// Why returns the reason as a clause.
func (k *KeptCPULimit) Why() string {
	text := string(k.Kind)
	if k.Kind == KeptForAPIServer && k.Refusal.Refused() {
		text += ": " + k.Refusal.String()
	}
	return text
}

// WithoutCPULimits returns a pod that is being created as it is without the CPU limits that its autoscaler has removed, and which these are.
// If no limit is removed, it returns the pod itself. Fit, Boost and the other functions for new pods get the result: a pod with a removed
// limit has the same size as one that never had the limit, so its running pod is not changed because of it.
//
// It considers the regular containers with a CPU limit whose policy lets podfit control CPU, with or without a recommendation. Their limits stay
// if they are needed (KeptKind). If the API server would refuse the pod without the limits, all of them stay. The QoS class may become
// Burstable. Limits of running pods are never removed, because a resize must not change the QoS class.
func WithoutCPULimits(a *cluster.Autoscaler, l Limits, p *cluster.Pod, standing cluster.Standing) (*cluster.Pod, CPULimits) {
	var out CPULimits
	if !a.CPULimits.Remove || !a.Mode.Applies() {
		return p, out
	}
	whole, wholePod := keptInWholePod(l, p)
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.IsSized() || c.Limits.CPU <= 0 || !a.Policy(c.Name).Controls().Has(cluster.CPU) {
			continue
		}
		kind, kept := whole, wholePod
		if !kept {
			kind, kept = keptInContainer(a, p, c)
		}
		if kept {
			out.Kept = append(out.Kept, KeptCPULimit{Container: c.Name, Kind: kind})
		} else {
			out.Removed = append(out.Removed, c.Name)
		}
	}
	if len(out.Removed) == 0 {
		return p, out
	}
	without := *p
	without.Containers = slices.Clone(p.Containers)
	for i := range without.Containers {
		if c := &without.Containers[i]; c.IsSized() && slices.Contains(out.Removed, c.Name) {
			c.Limits = c.Limits.Unset(cluster.CPU)
		}
	}
	if r := refusedWithout(l, p, &without, standing); r.Refused() {
		return p, out.Keep(r)
	}
	return &without, out
}

// Keep returns the result if all limits stay because the API server would refuse the pod without them.
func (x CPULimits) Keep(r admissible.Refusal) CPULimits {
	out := CPULimits{Kept: slices.Clone(x.Kept)}
	for _, name := range x.Removed {
		out.Kept = append(out.Kept, KeptCPULimit{Container: name, Kind: KeptForAPIServer, Refusal: r})
	}
	return out
}

// keptInWholePod returns why no limit of a pod can be removed.
func keptInWholePod(l Limits, p *cluster.Pod) (KeptKind, bool) {
	switch {
	case p.PodLevel != nil && p.PodLevel.Limits.CPU > 0:
		return KeptInPodLevel, true
	case l.Range.Container.Default.CPU > 0:
		return KeptByDefault, true
	case l.QuotasUnknown:
		return KeptForUnknownQuota, true
	}
	return "", false
}

// keptInContainer returns why the limit of a container cannot be removed.
func keptInContainer(a *cluster.Autoscaler, p *cluster.Pod, c *cluster.Container) (KeptKind, bool) {
	cp := a.Policy(c.Name)
	r := p.Runtime(c)
	countSet := r != nil && (r.CPUCountSet || a.Guards.InjectCPUCount && r.VariableOpen)
	switch {
	case cp != nil && cp.RequestsOnly:
		return KeptByPolicy, true
	case slices.Contains(a.IntegerCPU, c.Name):
		return KeptForWholeCores, true
	case c.Requests.CPU <= 0:
		return KeptForRequest, true
	case r != nil && r.Kind == cluster.JVM && !countSet:
		return KeptForJVM, true
	case r != nil && r.Kind == cluster.DotNet && !countSet:
		return KeptForDotNet, true
	}
	return "", false
}

// refusedWithout returns why the API server may refuse a pod because its CPU limits are removed: a LimitRange, or a quota that bounds CPU
// limits, which refuses each pod without one.
func refusedWithout(l Limits, p, without *cluster.Pod, standing cluster.Standing) admissible.Refusal {
	if r := &l.Range; r.Container.Max.CPU > 0 || r.ContainerRatio.CPU > 0 || r.Pod.Max.CPU > 0 || r.PodRatio.CPU > 0 {
		return admissible.Refusal{Kind: admissible.LimitMissing, Resource: cluster.CPU}
	}
	if r := admissible.RefusedOf(l, without, nil, cluster.CPU); r.Refused() && !admissible.RefusedOf(l, p, nil, cluster.CPU).Refused() {
		return r
	}
	return QuotaOfLimits(l, standing, cluster.CPU)
}

// QuotaOfLimits returns the first quota that bounds the limits of a resource, as the reason why it refuses pods without one. A quota that may count the
// pod is assumed to do so.
func QuotaOfLimits(l Limits, standing cluster.Standing, res cluster.Resource) admissible.Refusal {
	if l.Quotas == nil {
		return admissible.Refusal{}
	}
	if l.Quotas.TooMany {
		return admissible.Refusal{Kind: admissible.TooManyQuotas}
	}
	for i := range l.Quotas.List {
		q := &l.Quotas.List[i]
		if q.Counts(standing, false) != cluster.No && (q.Hard.Limits.Has | q.Left.Limits.Has).Has(res) {
			return admissible.Refusal{Kind: admissible.QuotaRequires, Resource: res, Quota: q.Name, OfLimit: true}
		}
	}
	return admissible.Refusal{}
}

// WithCPULimits returns a value of the annotation vpaUpdates, which may be empty, with the CPU limits that were removed, and those that
// stay with the reason.
func WithCPULimits(a *cluster.Autoscaler, text string, x CPULimits) string {
	if len(x.Removed) == 0 && len(x.Kept) == 0 {
		return text
	}
	var b strings.Builder
	switch {
	case text != "":
		b.WriteString(text + "; ")
	case len(x.Removed) > 0:
		b.WriteString("Pod resources updated by " + a.Name + ": ")
	default:
		b.WriteString("Pod resources NOT updated by " + a.Name + ": ")
	}
	if len(x.Removed) > 0 {
		b.WriteString("cpu limit removed: container " + strings.Join(x.Removed, ", "))
	}
	for i := range x.Kept {
		k := &x.Kept[i]
		switch {
		case i > 0 && x.Kept[i-1].Kind == k.Kind:
			continue // named with the first one
		case i > 0 || len(x.Removed) > 0:
			b.WriteString("; ")
		}
		b.WriteString("cpu limit kept: container " + k.Container)
		for j := i + 1; j < len(x.Kept) && x.Kept[j].Kind == k.Kind; j++ {
			b.WriteString(", " + x.Kept[j].Container)
		}
		b.WriteString(": " + k.Why())
	}
	return b.String()
}
