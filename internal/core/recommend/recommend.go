// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommend computes recommendations from usage history.
//
// An Estimator sizes one container, Workload all containers that an autoscaler sizes. Package policy applies the
// constraints of the user (minAllowed, maxAllowed, whole cores) and the share of a node (Params.Node) to the result.
// The package is pure: no clock, no input or output, no state.
package recommend

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/usage"
)

// mostMillicores is 100 times the largest sample of CPU. Only broken history leads to more.
const mostMillicores = 1e10

// An Estimator computes the estimate of a container from its usage history. It sets only resources that have samples. For these,
// lower ≤ target ≤ upper, and none is below the floor.
//
// Unless to is nil, it sets the steps in to. A resource that is not in the estimate has no steps.
type Estimator interface {
	Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *derivation.Record) cluster.Estimate
}

// An algorithm sizes a container by the model state that it keeps of it.
type algorithm interface {
	// Extend creates the model state of a container (usage.Store.Extend).
	Extend() usage.Extension
	// Amount returns the amount of a resource without the floor, in millicores or bytes, and appends its steps to a recorder that starts
	// in cores or bytes. It returns 0, and records no step, if the model state has no usage of the resource.
	Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64
}

// byModelState is the Estimator of an algorithm: its amount not below the floor, with bounds around it.
type byModelState struct{ algorithm }

// String returns the parameters of the algorithm, for checksums of profiles.
func (e byModelState) String() string { return fmt.Sprintf("%+v", e.algorithm) }

// Estimate implements Estimator.
func (e byModelState) Estimate(s *usage.ContainerHistory, floor cluster.Resources, now time.Time, to *derivation.Record) cluster.Estimate {
	var estimate cluster.Estimate
	by, packs := e.algorithm.(*packed)
	for _, r := range cluster.All {
		amountOf, bounds := e.Amount, decided
		switch {
		case packs && by.sizes(s, r):
			bounds = following
		case packs:
			amountOf = by.adaptive.Amount
		}
		steps := to.Of(r).Begin(cluster.Pick(r, 1000.0, 1))
		if amount := amountOf(s.Extension(), r, now, steps); amount > 0 {
			least := floor.Amount(r)
			estimate = withBand(estimate, r, steps.RaiseWhole(derivation.StepFloor, amount, least), least, bounds, to.Of(r))
		}
	}
	return estimate
}

// A band has the bounds relative to the target.
type band struct{ lower, upper float64 }

var (
	// decided is closer than the smallest change of a request that an algorithm decides, so that every change is applied at once, and wider
	// than rounding.
	decided = band{0.95, 1.08}
	// following is for targets that follow usage each hour: requests change after a rise by 10 % or a fall by 20 %.
	following = band{0.9, 1.25}
)

// withBand sets the target of a resource and bounds around it, not below the floor. It appends to the steps of the target.
func withBand(e cluster.Estimate, r cluster.Resource, target, floor int64, b band, to *derivation.Steps) cluster.Estimate {
	if r == cluster.CPU {
		steps := to.Continue()
		target = steps.RaiseWhole(derivation.StepFloor, steps.LowerWhole(derivation.StepMaximum, target, mostMillicores), floor)
	}
	e.Target = e.Target.Set(r, target)
	e.Lower = e.Lower.Set(r, max(scaled(target, b.lower), min(target, floor)))
	e.Upper = e.Upper.Set(r, max(scaled(target, b.upper), target))
	return e
}

// scaled multiplies an amount by a factor and truncates the result.
func scaled(v int64, factor float64) int64 { return derivation.Whole(float64(v) * factor) }

// Params are the parameters that all estimators share. DefaultParams returns upstream's values.
type Params struct {
	Margin           float64       // --recommendation-margin-fraction: added to usage, as a fraction of it
	CPU, Memory      Percentiles   // --target-cpu-percentile and related flags
	CPUConfidence    time.Duration // --confidence-interval-cpu: with this length of history the upper bound is twice the percentile
	MemoryConfidence time.Duration // --confidence-interval-memory
	FloorMillicores  float64       // --pod-recommendation-min-cpu-millicores: of a pod, split over its containers
	FloorMegabytes   float64       // --pod-recommendation-min-memory-mb, in MiB, likewise
	RoundMillicores  int64         // --round-cpu-millicores: round up to a multiple
	RoundBytes       int64         // --round-memory-bytes
	Humanize         bool          // --humanize-memory: two decimals of the largest unit
	WeightByRequest  bool          // the weight of a CPU sample is the CPU request at its time, as in upstream until 1.3

	// Node limits the CPU of a pod (Profile.For). Package policy applies it; the zero value is no limit.
	Node cluster.NodeShare
}

// Percentiles are the percentiles (0 to 1) of the lower bound, target and upper bound.
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

// Floor returns the minimum of each container of a pod with n sized containers.
func (p Params) Floor(n int) cluster.Resources {
	share := 1 / float64(max(n, 1))
	return cluster.Amounts(
		derivation.Whole(float64(derivation.Whole(float64(p.FloorMillicores*0.001)*1000))*share),
		derivation.Whole(float64(derivation.Whole(p.FloorMegabytes*1024*1024))*share),
	)
}

// round rounds amounts up, as RoundMillicores, RoundBytes and Humanize require. cpu and memory record the steps, unless they are nil.
func (p *Params) round(r cluster.Resources, cpu, memory *derivation.Recorder) cluster.Resources {
	r.CPU = cpu.RoundUp(r.CPU, p.RoundMillicores)
	r.Memory = memory.RoundUp(r.Memory, p.RoundBytes)
	if p.Humanize {
		r.Memory = memory.Humanize(r.Memory)
	}
	return r
}

// Workload returns the recommendations for the containers of a workload, sorted by container, before constraints of the
// user and the share of a node. Ordinary init containers (InitContainers), stale containers and those with mode Off get no recommendation and no share of the floor. Containers without samples of
// a sized resource are left out.
func Workload(params Params, est Estimator, book *usage.Store, autoscaler *cluster.Autoscaler, w cluster.Workload, now time.Time) []cluster.Advice {
	return advise(params, est, book.All(w), autoscaler, now, nil)
}

// Explain is Workload for the histories of the containers of a workload, which are sorted by container, and returns the steps to each
// recommendation.
func Explain(params Params, est Estimator, histories []*usage.ContainerHistory, autoscaler *cluster.Autoscaler, now time.Time) ([]cluster.Advice, []derivation.Record) {
	var records []derivation.Record
	advice := advise(params, est, histories, autoscaler, now, &records)
	return advice, records
}

// InitContainers returns the recommendations for the ordinary init containers of a workload, as Explain. They are sized by run only, and have no
// lower bound but for memory that an OOM kill showed to be needed (policy.FitInit).
func InitContainers(params Params, histories []*usage.ContainerHistory, autoscaler *cluster.Autoscaler, now time.Time) ([]cluster.Advice, []derivation.Record) {
	return Explain(params, nil, histories, autoscaler, now)
}

// advise computes the recommendations: without an estimator, those of ordinary init containers, else those of all others. Unless records is nil, it
// appends the steps of each.
func advise(params Params, est Estimator, all []*usage.ContainerHistory, autoscaler *cluster.Autoscaler, now time.Time, records *[]derivation.Record) []cluster.Advice {
	init := est == nil
	n, chosen := 0, 0
	for _, s := range all {
		if !sized(autoscaler, s) {
			continue
		}
		if !s.Runs().IsInit() {
			n++
		}
		if s.Runs().IsInit() == init {
			chosen++
		}
	}
	if chosen == 0 {
		return nil
	}
	floor := params.Floor(n)
	advice := make([]cluster.Advice, 0, chosen)
	for _, s := range all {
		if !sized(autoscaler, s) || s.Runs().IsInit() != init {
			continue
		}
		var to *derivation.Record
		if records != nil {
			to = new(derivation.Record)
		}
		controls := autoscaler.Policy(s.Container()).Controls()
		var e cluster.Estimate
		if !init {
			e = est.Estimate(s, floor, now, to)
		}
		e = params.finish(params.byRuns(e, s, floor, now, to), controls, to)
		if e.Target.Has.Empty() {
			continue
		}
		advice = append(advice, cluster.Advice{Container: s.Container(), Estimate: e, Uncapped: e.Target})
		if records != nil {
			*records = append(*records, *to)
		}
	}
	return advice
}

// finish restricts an estimate to the controlled resources, and rounds it.
func (p *Params) finish(e cluster.Estimate, controls cluster.Set, to *derivation.Record) cluster.Estimate {
	if to != nil {
		to.Only(controls)
	}
	e.Lower = p.round(e.Lower.Only(controls), nil, nil)
	e.Target = p.round(e.Target.Only(controls), to.Of(cluster.CPU).Continue(), to.Of(cluster.Memory).Continue())
	e.Upper = p.round(e.Upper.Only(controls), nil, nil)
	return e
}

func sized(a *cluster.Autoscaler, s *usage.ContainerHistory) bool {
	if s.Stale() {
		return false
	}
	policy := a.Policy(s.Container())
	return policy == nil || !policy.Off
}
