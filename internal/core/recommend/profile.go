// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/autopilot"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/comparison"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/usage"
)

// A Profile is an algorithm with its parameters. A VerticalPodAutoscaler selects it by name.
type Profile struct {
	Name  string
	About string // one line for help and reports
	Params
	Estimator

	// OOMBudget is the fraction of days on which memory usage may exceed the request. 0: the profile promises none.
	OOMBudget float64

	// MostOfNode limits the CPU of a pod to a fraction of the smallest node that the pods of its workload may run on (fleet.Nodes.Smallest). For
	// sets Params.Node by it. 0: no bound.
	MostOfNode     float64
	MostOfNodeBase cluster.NodeBase // what it is a fraction of

	// Learning is whether startup boosts are learnt. Built-in profiles learn none.
	Learning cluster.BoostLearning

	// MemoryLimits is the rule for memory limits. With built-in profiles, except packed, they keep their ratio to the request.
	MemoryLimits cluster.LimitRule

	// Mode is the update mode that a backtest assumes. In a cluster the autoscaler sets it.
	Mode cluster.Mode

	// Extend creates the model state that the Estimator needs in addition to the histograms (usage.Store.Extend).
	// Nil if it needs none.
	Extend func() usage.Extension
}

// Builtins returns the built-in profiles, which a VerticalPodAutoscaler can use without a SizingProfile object, in the order of
// the help text.
func Builtins() []Profile {
	return []Profile{
		DefaultProfile("default", "same recommendations as the upstream VPA", DefaultParams()),
		AdaptiveProfile("balanced", "memory usage above the request on at most 3 % of days", Balanced()),
		AdaptiveProfile("cost", "memory usage above the request on at most 6 % of days; lower requests than balanced", Cost()),
		AdaptiveProfile("critical", "memory usage above the request on 2 % of days on average (95 % confidence: at most 2.3 %)", Critical()),
		BusyHoursProfile("busy-hours", "CPU: 1.3 × p99 of the busy hours; memory: same as balanced", Busiest()),
		EnsembleProfile("autopilot", "model with the lowest past cost, as in Autopilot (EuroSys 2020)", Autopilot()),
		PackedProfile(packedName, "requests for full nodes, with memory limits apart from requests", Packed()),
	}
}

// Builtin returns the built-in profile with a name.
func Builtin(name string) (Profile, bool) { return named(Builtins(), name) }

// Comparisons returns the comparison profiles. Only a backtest uses them.
func Comparisons() []Profile {
	return []Profile{
		extended("window-max", "1.15 × the maximum of 7 days, as in many other tools", comparison.WindowMax{}),
	}
}

// BacktestProfiles returns the built-in profiles and the comparison profiles, in the order of the help text.
func BacktestProfiles() []Profile { return append(Builtins(), Comparisons()...) }

// BacktestProfile returns the built-in or comparison profile with a name.
func BacktestProfile(name string) (Profile, bool) { return named(BacktestProfiles(), name) }

func named(profiles []Profile, name string) (Profile, bool) {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return profiles[i], true
}

// Autopilot returns the hyper-parameters of the autopilot profile.
func Autopilot() autopilot.Params {
	return autopilot.Params{
		CPU:    autopilot.Weights{Overrun: 10, Underrun: 1, Change: 0.05, Switch: 0.02, Forget: 72 * time.Hour, Bump: 1.05, Hold: 2 * time.Hour},
		Memory: autopilot.Weights{Overrun: 100, Underrun: 1, Change: 0.1, Switch: 0.02, Forget: 168 * time.Hour, Bump: 1.2, Hold: 24 * time.Hour},
	}
}

// Busiest returns the parameters of the busy-hours profile: criticality 1 of 3.
func Busiest() BusyParams {
	return BusyParams{
		Percentile: 0.99, Factor: 1.3, Share: 0.8, HalfLife: 7 * 24 * time.Hour, Startup: 5 * time.Minute, MostOfNode: 0.25,
		Memory: Balanced().Memory,
	}
}

// extended returns a profile with model state. Backtests assume that its pods are resized in place.
func extended(name, about string, a algorithm) Profile {
	p := DefaultParams()
	p.FloorMillicores = 10
	p.FloorMegabytes = 16 // upstream's minimum of 250 MiB causes most of the waste of small containers
	return Profile{Name: name, About: about, Params: p, Estimator: byModelState{a}, Extend: a.Extend, Mode: cluster.InPlaceOrRecreate}
}

// EnsembleProfile returns a profile that sizes by Ensemble.
func EnsembleProfile(name, about string, p autopilot.Params) Profile {
	return extended(name, about, &autopilot.Ensemble{Params: p})
}

// DefaultProfile returns a profile that sizes by Default with the given parameters.
func DefaultProfile(name, about string, p Params) Profile {
	d := Profile{Name: name, About: about, Params: p, Estimator: Default(p)}
	if p.WeightByRequest {
		d.Extend = func() usage.Extension { return byRequest{} }
	}
	return d
}

// BusyHoursProfile returns a profile that sizes by BusyHours.
func BusyHoursProfile(name, about string, b BusyParams) Profile {
	p := extended(name, about, newBusyHours(b))
	p.MostOfNode = b.MostOfNode
	p.MostOfNodeBase = b.MostOfNodeBase
	p.OOMBudget = b.Memory.Budget
	return p
}

// AdaptiveProfile returns a profile that sizes by Adaptive.
func AdaptiveProfile(name, about string, a AdaptiveParams) Profile {
	p := extended(name, about, &adaptive{a})
	p.OOMBudget = a.Memory.Budget
	return p
}

// Balanced returns the parameters of the profile for most workloads. docs/backtest.md describes how they were tuned.
func Balanced() AdaptiveParams {
	return AdaptiveParams{
		Memory: MemoryRule{
			Days: 7, Long: 14, Second: 0.3, LongSecond: 0.45, Spread: 0.15, Base: 0.7,
			Margin: 0.20, Step: 0.05, Budget: 0.03, Least: 0.02, Choose: true,
			Grow: 0.08, Shrink: 0.25, Wait: 12 * time.Hour, Bump: 1.1, Kill: 1.2, Hold: 12 * time.Hour,
			Plan: PlanRule{Gain: 0.15, Days: 7, Every: 24 * time.Hour, Jitter: 1, Extra: 0.1, Recent: 2, Ban: 7 * 24 * time.Hour},
			Min:  1 << 20,
		},
		CPU: CPURule{
			Window: 24 * time.Hour, Recent: 2 * time.Hour, Overrun: 300,
			Factor: 0.96, Bump: 1.2, Scale: 0.05, Add: 0.03, Shortfall: 0.001, RecentFactor: 1.05,
			Grow: 0.1, Shrink: 0.2, Wait: 6 * time.Hour, Min: 0.01,
			Plan: PlanRule{Gain: 0.2, Days: 3, Every: 24 * time.Hour, Jitter: 1, Ban: 24 * time.Hour},
		},
	}
}

// Cost returns parameters with more risk and less waste.
func Cost() AdaptiveParams {
	a := Balanced()
	a.Memory.Margin = 0.05
	a.Memory.Budget = 0.06
	a.Memory.Spread = 0.1
	a.Memory.LongSecond = 0.3
	a.Memory.Plan.Gain = 0.16
	a.CPU.Factor = 0.88
	a.CPU.Overrun = 150
	a.CPU.Shortfall = 0.003
	return a
}

// Critical returns parameters with less risk and more waste.
func Critical() AdaptiveParams {
	params := Balanced()
	params.Memory.Margin = 0.28
	params.Memory.Budget = 0.02
	params.Memory.Spread = 0.2
	params.Memory.Shrink = 0.2
	params.Memory.Plan.Gain = 0.2
	params.CPU.Window = 48 * time.Hour
	params.CPU.Factor = 1.12
	params.CPU.Overrun = 1000
	params.CPU.Shortfall = 0.0003
	params.CPU.Plan.Days = 5
	return params
}

// For returns the profile as it applies to a workload: with the criticality that its pods declare, and limited by the nodes that they may run
// on. Only BusyHours has a criticality.
func (p Profile) For(d criticality.Declared, nodes fleet.NodeSizes) Profile {
	if by, packs := algorithmOf[*packed](p); packs {
		p.Estimator = byModelState{by.packedFor(&d, nodes, p.MemoryLimits)}
	}
	if p.MostOfNode > 0 {
		p.Node = cluster.NodeShare{
			Millicores: nodes.Of(p.MostOfNodeBase), Share: p.MostOfNode, Base: p.MostOfNodeBase, Floor: p.Floor(1).CPU,
		}
	}
	busy, ok := algorithmOf[*busyHours](p)
	if !ok {
		return p
	}
	if of := d.Of(busy.p.Factor, busy.p.PriorityClasses); of != busy.criticality {
		changed := *busy
		changed.criticality = of
		p.Estimator = byModelState{&changed}
	}
	return p
}

// IsByNode reports whether sizes depend on the nodes that the pods may run on.
func (p Profile) IsByNode() bool { return p.MostOfNode > 0 || p.Packs() }

// Criticality returns the criticality that the profile multiplies usage by. ok is false if the profile has none.
func (p Profile) Criticality() (c criticality.Factor, ok bool) {
	busy, ok := algorithmOf[*busyHours](p)
	if !ok {
		return criticality.Factor{}, false
	}
	return busy.criticality, true
}

// algorithmOf returns the algorithm of a profile, if it is of a type.
func algorithmOf[A algorithm](p Profile) (A, bool) {
	sized, _ := p.Estimator.(byModelState)
	by, ok := sized.algorithm.(A)
	return by, ok
}
