// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommend turns what containers have used into what they should be given.
//
// An Estimator answers for one container, Workload for all containers an autoscaler sizes. The answers are raw:
// what the user allows (minAllowed, maxAllowed, whole cores) is applied afterwards, by package policy.
// The package is pure: no clock, no input or output, no state.
package recommend

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// maxAmount is the most of anything that is ever recommended, in millicores or bytes. No more is asked for either, so that what
// a broken history asks for can be stored.
const maxAmount = 1e14

// mostMillicores is a hundred times what a sample of CPU can be. What asks for more goes by a history that is broken.
const mostMillicores = 1e10

// An Estimator answers what a container should be given, from what it has used. It sets only the resources it has
// seen samples of: no data, no number. Of what it sets, lower ≤ target ≤ upper holds, and none is below the floor.
type Estimator interface {
	Estimate(s *usage.Series, floor cluster.Resources, now time.Time) cluster.Estimate
}

// Params says how usage becomes a recommendation. DefaultParams has upstream's values.
type Params struct {
	Margin           float64       // --recommendation-margin-fraction: what is added on top of usage
	CPU, Memory      Percentiles   // --target-cpu-percentile and its kin
	CPUConfidence    time.Duration // --confidence-interval-cpu: how much history makes the bounds twice as wide as without end
	MemoryConfidence time.Duration // --confidence-interval-memory
	FloorMillicores  float64       // --pod-recommendation-min-cpu-millicores: of a pod, split over its containers
	FloorMegabytes   float64       // --pod-recommendation-min-memory-mb, in MiB, likewise
	RoundMillicores  int64         // --round-cpu-millicores: round up to a multiple
	RoundBytes       int64         // --round-memory-bytes
	Humanize         bool          // --humanize-memory: two decimals of the largest unit
	MostMillicores   int64         // of CPU, for each container; 0: no bound
	WeightByRequest  bool          // a CPU sample weighs what the container requested then, as upstream had it until 1.3
}

// Percentiles are the shares of usage (0 to 1) at which the numbers of an Estimate are read off.
type Percentiles struct{ Lower, Target, Upper float64 }

// DefaultParams returns upstream's defaults.
func DefaultParams() Params {
	day := 24 * time.Hour
	return Params{
		Margin:           0.15,
		CPU:              Percentiles{Lower: 0.5, Target: 0.9, Upper: 0.95},
		Memory:           Percentiles{Lower: 0.5, Target: 0.9, Upper: 0.95},
		CPUConfidence:    day,
		MemoryConfidence: day,
		FloorMillicores:  25,
		FloorMegabytes:   250,
		RoundMillicores:  1,
		RoundBytes:       1,
	}
}

// Floor returns what a container of a pod with n sized containers gets at least.
func (p Params) Floor(n int) cluster.Resources {
	share := 1 / float64(max(n, 1))
	return cluster.Amounts(
		amount(float64(amount(float64(p.FloorMillicores*0.001)*1000))*share),
		amount(float64(amount(p.FloorMegabytes*1024*1024))*share),
	)
}

// Round rounds an amount up to the multiple that is asked for.
func (p Params) Round(r cluster.Resources) cluster.Resources {
	r.CPU = roundUp(r.CPU, p.RoundMillicores)
	r.Memory = roundUp(r.Memory, p.RoundBytes)
	if p.Humanize {
		r.Memory = humanized(r.Memory)
	}
	return r
}

// Workload returns what the containers of a workload should be given, sorted by container: raw, before the user's
// bounds. A container that no live pod has any more gets nothing and has no share in the floor, nor has one whose
// policy is off. A container without any sample of a resource that is sized is left out.
func Workload(params Params, est Estimator, book *usage.Book, autoscaler *cluster.Autoscaler, w cluster.Workload, now time.Time) []cluster.Advice {
	all := book.All(w)
	n := 0
	for _, s := range all {
		if sized(autoscaler, s) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	floor := params.Floor(n)
	advice := make([]cluster.Advice, 0, n)
	for _, s := range all {
		if !sized(autoscaler, s) {
			continue
		}
		controls := autoscaler.Policy(s.Container()).Controls()
		e := params.bounded(est.Estimate(s, floor, now), floor)
		e.Lower = params.Round(e.Lower.Only(controls))
		e.Target = params.Round(e.Target.Only(controls))
		e.Upper = params.Round(e.Upper.Only(controls))
		if !e.Target.Has.Empty() {
			advice = append(advice, cluster.Advice{Container: s.Container(), Estimate: e, Uncapped: e.Target})
		}
	}
	return advice
}

// bounded returns an estimate that gives no more than the most, unless the floor is more.
func (p Params) bounded(e cluster.Estimate, floor cluster.Resources) cluster.Estimate {
	if p.MostMillicores == 0 || !e.Target.Has.Has(cluster.CPU) {
		return e
	}
	most := max(p.MostMillicores, floor.CPU)
	e.Lower.CPU = min(e.Lower.CPU, most)
	e.Target.CPU = min(e.Target.CPU, most)
	e.Upper.CPU = min(e.Upper.CPU, most)
	return e
}

func sized(a *cluster.Autoscaler, s *usage.Series) bool {
	if s.Stale() {
		return false
	}
	policy := a.Policy(s.Container())
	return policy == nil || !policy.Off
}

// amount cuts a number to a whole amount between nothing and maxAmount. What is not a number is nothing.
func amount(v float64) int64 {
	switch {
	case v > maxAmount:
		return maxAmount
	case v > 0:
		return int64(v)
	}
	return 0
}

func roundUp(v, unit int64) int64 {
	if v == 0 || unit <= 1 {
		return v
	}
	return int64(math.Ceil(float64(v)/float64(unit))) * unit
}
