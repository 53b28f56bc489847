// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// packed sizes requests for nodes that are full: a part of each node's memory stays free, and any one container on it may use that beyond its
// request. It is for containers whose memory limit does not follow the request.
//
//	memory = max(q + λ (max₇ − q), max₁₄ − R × node / copies) / (1 − R)
//	CPU    = the percentile
//
// q and the percentile are of the hourly peaks of 7 days, max₇ and max₁₄ the highest memory usage of 7 and 14 days. node is the memory of the smallest
// node that the pods may run on, and copies how many of them share a node. Where that is not possible (PackingProblem), adaptive sizes the container. The
// model state is that of adaptive in any case, so that no memory usage is lost when the nodes or the profile change.
type packed struct {
	adaptive
	PackedParams
	nodes          fleet.NodeSizes
	isCritical     bool     // the pods declare it
	limited        []string // containers with a CPU limit, or by whose CPU an HPA scales
	limitByRequest []string // containers whose memory limit follows the request
}

// PackedParams are the parameters of packed.
type PackedParams struct {
	Memory   float64 // the percentile of memory
	CPU      float64 // the percentile of CPU
	Peak     float64 // λ
	Reserve  float64 // R
	Days     int     // of the percentiles and max₇, at most 7
	LongDays int     // of max₁₄, at most 14
}

// Packed returns the default parameters. docs/backtest.md says how they were chosen, docs/algorithm.md when another size applies.
func Packed() PackedParams {
	return PackedParams{Memory: 0.75, CPU: 0.8, Peak: 0.2, Reserve: 0.15, Days: 7, LongDays: 14}
}

const (
	packedHours = 7 * 24
	packedLong  = 14 * 24
	packedKnown = 3 * 24 // hours of history
	packedMost  = 0.5    // of a node, for the highest usage of a container
)

// A PackingProblem is why a container is not sized by packed.
type PackingProblem string

// The problems.
const (
	NoPackingProblem PackingProblem = ""
	NodesNotKnown    PackingProblem = "NodesNotKnown"  // no node is known that the pods may run on
	TooYoung         PackingProblem = "TooYoung"       // fewer than three days of usage, or too little of them is recent
	LargerThanHalf   PackingProblem = "LargerThanHalf" // its highest usage is more than half of the smallest node
	LimitByRequest   PackingProblem = "LimitByRequest" // its memory limit follows the request: by the rule, or because a language runtime sizes its heap by it
)

// PackingProblems are the texts of the problems, about a container.
var PackingProblems = map[PackingProblem]string{
	NodesNotKnown:  "no node is known that its pods may run on",
	TooYoung:       "fewer than three days of its memory usage are known, or too little is known since a pause of several days",
	LimitByRequest: "its memory limit follows the request, because of the rule for limits or because its language runtime sizes the heap by it",
	LargerThanHalf: "its highest usage is more than half of the memory of the smallest node that its pods may run on",
}

// Extend creates the model state of a container (usage.Store.Extend): that of adaptive, with a week of CPU.
func (p *packed) Extend() usage.Extension {
	memo := p.adaptive.Extend().(*Memo)
	memo.CPU = hourly.NewPeaks(packedHours)
	return memo
}

// sizes reports whether a resource of a container can be sized by the nodes. If not, adaptive sizes it.
func (p *packed) sizes(s *usage.ContainerHistory, r cluster.Resource) bool {
	m, ok := s.Extension().(*Memo)
	return ok && !p.exempts(s.Container(), r) && p.problem(m) == NoPackingProblem && (r == cluster.Memory || p.knows(&m.CPU, packedHours))
}

// Amount returns the request, 0 if there are no samples.
func (p *packed) Amount(state usage.Extension, r cluster.Resource, _ time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*Memo)
	switch {
	case !ok || m.Peaks(r).Empty():
		return 0
	case r == cluster.CPU:
		v, _ := usual(&m.CPU, p.CPU, p.Days*24, to)
		return to.Ceil(to.ToMillicores(v, 1000))
	}
	return p.memory(m, to)
}

// exempts reports whether adaptive sizes a resource of a container: CPU if the pods are critical, if the container has a CPU limit, which follows the
// request, or if an HPA compares its CPU usage with the request; both resources if its memory limit follows the request.
func (p *packed) exempts(container string, r cluster.Resource) bool {
	needsCPU := p.isCritical || slices.Contains(p.limited, container)
	return r == cluster.CPU && needsCPU || slices.Contains(p.limitByRequest, container)
}

// problem returns why a container cannot be sized by its nodes.
func (p *packed) problem(m *Memo) PackingProblem {
	switch {
	case p.nodes.Memory == 0:
		return NodesNotKnown
	case !p.knows(&m.Memory, packedLong):
		return TooYoung
	case p.highest(m) > packedMost*float64(p.nodes.Memory): // which changes with peaks only, and not each hour
		return LargerThanHalf
	}
	return NoPackingProblem
}

func (p *packed) memory(m *Memo, to *derivation.Recorder) int64 {
	v, most := usual(&m.Memory, p.Memory, p.Days*24, to)
	low := v
	v = to.Add(derivation.StepSpread, v, p.Peak*(most-v))
	to.Evidence().Share, to.Evidence().Amount = p.Memory, low
	reserve := p.Reserve * float64(p.nodes.Memory)
	own := reserve / float64(max(p.nodes.Copies, 1))
	v = to.Raise(derivation.StepOverReserve, v, p.highest(m)-own)
	to.Evidence().Days, to.Evidence().Amount = float64(p.LongDays), own
	v = to.Multiply(derivation.StepReserve, v, 1/(1-p.Reserve))
	to.Evidence().Share, to.Evidence().Amount = p.Reserve, reserve
	return to.Ceil(v)
}

// keptHours returns the number of hours from the first peak of the last hours to the newest one.
func keptHours(peaks *hourly.Peaks, last int) int {
	end := peaks.Newest() + 1
	for h := end - last; h < end; h++ {
		if peaks.At(h) > 0 {
			return end - h
		}
	}
	return 0
}

// knows reports whether the peaks of the last hours, of at most 14 days, are enough: those of three days, and of the recent days at least half of their part.
// Else a start after a pause as long as these days would decide the size.
func (p *packed) knows(peaks *hourly.Peaks, last int) bool {
	var room [packedLong]hourly.Level
	end := peaks.Newest() + 1
	all := len(peaks.AppendHours(room[:0], end-last, end))
	recent := len(peaks.AppendHours(room[:0], end-p.Days*24, end))
	return keptHours(peaks, last) >= packedKnown && 2*recent*last >= all*p.Days*24
}

// highest returns the highest memory usage of the long window, in bytes.
func (p *packed) highest(m *Memo) float64 {
	end := m.Memory.Newest() + 1
	return m.Memory.Max(end-p.LongDays*24, end).Amount()
}

// usual returns the usage that a share of the last hours, at most a week, stay below, and the highest.
func usual(peaks *hourly.Peaks, share float64, last int, to *derivation.Recorder) (v, most float64) {
	end := peaks.Newest() + 1
	var room [packedHours]hourly.Level
	hours := peaks.AppendHours(room[:0], end-last, end)
	v = to.Value(derivation.StepPercentile, hourly.Quantile(hours, share).Amount())
	e := to.Evidence()
	e.Share, e.Samples, e.From = share, len(hours), unix(int64(max(end-last, peaks.Since()))*3600)
	return v, slices.Max(hours).Amount()
}

// packedName is the name of the built-in profile that sizes by packed.
const packedName = "packed"

// LimitsOf returns the rule for memory limits of a built-in profile.
func LimitsOf(builtin string) cluster.LimitRule {
	return cluster.LimitRule{Peaks: builtin == packedName}
}

// PackedProfile returns the profile that sizes by packed.
func PackedProfile(name, about string, params PackedParams) Profile {
	p := extended(name, about, &packed{adaptive: adaptive{Balanced()}, PackedParams: params})
	p.MemoryLimits = LimitsOf(packedName)
	return p
}

// PackingProblem returns why a container is not sized by the nodes, NoPackingProblem if it is, or if the profile does not do that.
func (p Profile) PackingProblem(s *usage.ContainerHistory) PackingProblem {
	by, packs := algorithmOf[*packed](p)
	m := memoOf(s.Extension())
	switch {
	case !packs || m == nil:
		return NoPackingProblem
	case by.exempts(s.Container(), cluster.Memory):
		return LimitByRequest
	}
	return by.problem(m)
}

// Packs reports whether the profile sizes pods for full nodes.
func (p Profile) Packs() bool {
	_, packs := algorithmOf[*packed](p)
	return packs
}

// PackedFor returns the nodes that the profile sizes pods for, zero if sizes do not depend on them.
func (p Profile) PackedFor() fleet.NodeSizes {
	if by, packs := algorithmOf[*packed](p); packs {
		return by.nodes
	}
	return fleet.NodeSizes{}
}

// packedFor returns packed for a workload on nodes. Its memory limits follow a rule, but those of language runtimes that size the heap by them.
func (p *packed) packedFor(d *criticality.Declared, nodes fleet.NodeSizes, rule cluster.LimitRule) *packed {
	out := &packed{adaptive: p.adaptive, PackedParams: p.PackedParams, nodes: nodes, isCritical: d.Label > criticality.Min, limited: d.Limited, limitByRequest: d.Runtimes}
	if !rule.Peaks && !rule.Keep {
		out.limitByRequest = d.Capped
	}
	return out
}
