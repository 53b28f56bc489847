// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A MemoryLimitKind is how the memory limit of a container is determined, as the end of a sentence that begins with the limit.
type MemoryLimitKind string

// The kinds. With the last ones, a process leaves the limit in its ratio to the request although the rule is another one.
const (
	LimitInProportion MemoryLimitKind = ""
	LimitUnchanged    MemoryLimitKind = "stays as it is"
	LimitOfPolicy     MemoryLimitKind = "stays as it is, because controlledValues of the container policy is RequestsOnly"
	LimitByPeaks      MemoryLimitKind = "follows the highest usage of 14 days: twice as much, at least 1 GiB more, within minAllowed, maxAllowed, the LimitRange and the node. " +
		"It does not fall in the first 14 days"
	LimitOfGuaranteed  MemoryLimitKind = "keeps its ratio to the request: with another one, the QoS class of the pod would not be Guaranteed"
	LimitOfRuntime     MemoryLimitKind = "keeps its ratio to the request: the language runtime sizes its heap by the limit"
	LimitOfPodLevel    MemoryLimitKind = "keeps its ratio to the request: the pod has pod-level memory resources"
	LimitOfPodRange    MemoryLimitKind = "keeps its ratio to the request: a LimitRange bounds the memory of the pod as a whole"
	LimitLeftToHPA     MemoryLimitKind = "is not changed, because a HorizontalPodAutoscaler scales the workload by the memory request"
	LimitOfQuota       MemoryLimitKind = "keeps its ratio to the request: a ResourceQuota of the namespace bounds limits.memory"
	LimitQuotasUnknown MemoryLimitKind = "is not known: this command cannot read the ResourceQuotas of the namespace"
	LimitPeaksUnknown  MemoryLimitKind = "keeps its ratio to the request: the highest usage is not known yet"
)

// MemoryLimitOf returns how the memory limit of a container follows. Without a limit of its own it gets none, whatever the rule is.
func MemoryLimitOf(a *cluster.Autoscaler, l Limits, p *cluster.Pod, c *cluster.Container) MemoryLimitKind {
	rule := a.MemoryLimits
	if !rule.Keep && !rule.Peaks || !c.IsSized() || !a.Policy(c.Name).Controls().Has(cluster.Memory) {
		return LimitInProportion
	}
	cp := a.Policy(c.Name)
	if _, limits := c.Running(); limits.Memory <= 0 {
		return LimitInProportion
	}
	advice := a.AdviceFor(c.Name)
	switch podRange := l.Range.Pod; {
	case cp != nil && cp.RequestsOnly:
		return LimitOfPolicy
	case leftToHPA(a, c.Name).Has(cluster.Memory):
		return LimitLeftToHPA
	case p.PodLevel != nil && (p.PodLevel.Requests.Has | p.PodLevel.Limits.Has).Has(cluster.Memory):
		return LimitOfPodLevel
	case admissible.QoSOf(Limits{}, p, nil) == cluster.Guaranteed:
		return LimitOfGuaranteed
	case podRange.Min.Memory > 0, podRange.Max.Memory > 0, l.Range.PodRatio.Memory > 0:
		return LimitOfPodRange
	case rule.Keep:
		return LimitUnchanged
	case p.Runtime(c) != nil:
		return LimitOfRuntime
	case l.QuotasUnknown:
		return LimitQuotasUnknown
	case QuotaOfLimits(l, cluster.Standing{}, cluster.Memory).Refused():
		return LimitOfQuota
	case advice == nil || advice.MemoryLimit <= 0:
		return LimitPeaksUnknown
	}
	return LimitByPeaks
}

// LeastOfPeak is the factor of the highest usage below which a limit is low. LimitOf is above it, but an explicit bound of the user, the LimitRange and the
// largest node count more.
const LeastOfPeak = 1.25

// LimitOf returns the memory limit for a peak of memory usage, in bytes. The second term protects small containers, at the cost of no node.
func LimitOf(peak float64) float64 { return max(2*peak, peak+1<<30) }

// The least memory limits of containers whose limit should follow the highest usage, relative to that usage: for a lower bound, a target and an upper
// bound. They differ, so that a small change of that usage does not change the request again.
const lowerLeast, targetLeast, upperLeast = 1.05, 1.2, 1.6

// leastLimit returns the least memory limit of a container, in bytes: the highest usage times a factor, rounded up to MiB. It is 0 if that usage is not
// known, or if the limit does not have to follow it.
func leastLimit(a *cluster.Autoscaler, container string, factor float64) int64 {
	advice := a.AdviceFor(container)
	if advice == nil {
		return 0
	}
	least, _ := integer.Scaled(min(advice.MemoryPeak, 1<<60), int64(factor*100), 100)
	return (least + 1<<20 - 1) >> 20 << 20
}

// MemoryLimitsOf returns the lowest and the largest memory limit with which a container of live pods runs, in bytes; 0 if it has none.
func MemoryLimitsOf(pods []*cluster.Pod, container string) (lowest, largest int64) {
	for _, p := range pods {
		c := p.Container(container)
		if c == nil || !p.Live() {
			continue
		}
		_, limits := c.Running()
		if limits.Memory > 0 && (lowest == 0 || limits.Memory < lowest) {
			lowest = limits.Memory
		}
		largest = max(largest, limits.Memory)
	}
	return lowest, largest
}

// HasLimitByPeaks reports whether the memory limit of one of the containers follows the highest usage.
func HasLimitByPeaks(fits []Fitted) bool {
	return slices.ContainsFunc(fits, func(f Fitted) bool { return f.LimitByPeaks })
}

// isApart reports whether the limit does not follow the request.
func (k MemoryLimitKind) isApart() bool { return k == LimitUnchanged || k == LimitByPeaks }

// needsRequest reports whether the limit follows the request although it should follow the highest usage. It does not for a language runtime, whose usage
// follows the limit.
func (k MemoryLimitKind) needsRequest() bool {
	return !k.isApart() && k != LimitOfPolicy && k != LimitLeftToHPA && k != LimitOfRuntime
}

// page is how far a limit that does not follow the request stays above it, in bytes: with equal ones, the QoS class could become Guaranteed.
const page = 4096

// setMemoryLimit sets or leaves out the memory limit of a container that does not follow the request.
func (f fitting) setMemoryLimit(fit *Fitted, c *cluster.Container) {
	request, changes := fit.Requests.Get(cluster.Memory)
	switch kind := MemoryLimitOf(f.a, f.l, f.p, c); {
	case !changes:
	case kind == LimitUnchanged:
		fit.Limits = fit.Limits.Unset(cluster.Memory)
	case kind == LimitByPeaks:
		limit := f.a.AdviceFor(c.Name).MemoryLimit
		if most := f.l.Range.Container.Max.Memory; most > 0 {
			limit = min(limit, most)
		}
		if ratio := f.l.Range.ContainerRatio.Memory; ratio > 0 { // in thousandths
			bound, _ := integer.Scaled(request, ratio, 1000)
			limit = min(limit, bound)
		}
		fit.Limits = fit.Limits.Set(cluster.Memory, max(limit, request+page))
		fit.LimitByPeaks = true
	}
}
