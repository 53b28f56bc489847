// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"sort"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// wholeBoost is the share of a whole startup boost. A boost that is limited is a whole number of parts of it.
const wholeBoost = 1024

// Boosted is the size of a pod with its startup boost.
type Boosted struct {
	Fits      []Fitted
	Originals []Original         // of the boosted containers
	NoBase    []string           // containers with a factor that multiplies nothing: they have neither a CPU request nor a recommendation
	Refusal   admissible.Refusal // why no boost is possible without taking CPU from a container; Fits is the size with the whole boost then

	configured, learnt bool // a container has a boost that the user configured, or a learnt one
}

// AdmissibleBoost applies the startup boost and changes the sizes so that the API server admits them (admissible.Adjust). If the
// boost does not fit into the pod-level resources or the pod LimitRange, it is limited, so that it takes no CPU from other containers.
//
// If all boosts of the pod are learnt, the boost is also limited so that the pod fits on a node, if it does without the boost. If that leaves
// nothing, the pod gets no boost. A boosted CPU request that a JVM would misread is lowered below the range that it misreads, if the
// autoscaler has the guard.
func AdmissibleBoost(a *cluster.Autoscaler, l Limits, p *cluster.Pod, fits []Fitted, most int64) Boosted {
	by := func(share int64) (b Boosted, takes bool) {
		b = boostBy(a, p, slices.Clone(fits), most, share)
		meant := slices.Clone(b.Fits)
		admissible.Adjust(l, p, b.Fits)
		guardBoost(a, l, p, fits, b.Fits)
		tooLarge := b.learnt && !b.configured && !fitsOnNode(l, p, b.Fits) && fitsOnNode(l, p, fits)
		return b, tooLarge || takesCPU(p, fits, meant, b.Fits)
	}
	whole, takes := by(wholeBoost)
	if !takes {
		return whole
	}
	tooMuch := sort.Search(wholeBoost-1, func(i int) bool {
		_, takes := by(int64(i) + 1)
		return takes
	}) + 1
	if limited, _ := by(int64(tooMuch) - 1); totalCPU(p, limited.Fits) > totalCPU(p, fits) {
		return limited
	}
	if whole.learnt && !whole.configured {
		return Boosted{Fits: fits}
	}
	unlimited := boostBy(a, p, slices.Clone(fits), most, wholeBoost)
	whole.Refusal = admissible.Refused(l, p, unlimited.Fits)
	if !whole.Refusal.Refused() {
		whole.Refusal = admissible.Refusal{Kind: admissible.SumAbovePodLevel, Resource: cluster.CPU, Have: totalCPU(p, unlimited.Fits), Want: totalCPU(p, whole.Fits)}
	}
	return whole
}

// fitsOnNode reports whether a pod with fits set on it fits on a node when no other pod runs there, or whether that is not known.
func fitsOnNode(l Limits, p *cluster.Pod, fits []Fitted) bool {
	return holdsAny(ceilingsOf(l), demandOf(l, p, fits))
}

// totalCPU returns the sum of the CPU requests of the regular containers of a pod with fits set on it.
func totalCPU(p *cluster.Pod, fits []Fitted) (total int64) {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.IsSized() {
			requests, _ := admissible.SizeOf(c, fits)
			total = integer.Sum(total, requests.CPU)
		}
	}
	return total
}

// takesCPU reports whether a container has less CPU with a boost than without it because the boost was made admissible. The maximum of a
// boosted request and rounding may lower requests too, as in upstream: that does not count.
func takesCPU(p *cluster.Pod, without, meant, boosted []Fitted) bool {
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.IsSized() {
			continue
		}
		requests, limits := admissible.SizeOf(c, without)
		meantRequests, meantLimits := admissible.SizeOf(c, meant)
		boostedRequests, boostedLimits := admissible.SizeOf(c, boosted)
		if boostedRequests.CPU < min(requests.CPU, meantRequests.CPU) ||
			boostedLimits.Has.Has(cluster.CPU) && boostedLimits.CPU < min(limits.CPU, meantLimits.CPU) {
			return true
		}
	}
	return false
}
