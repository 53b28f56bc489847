// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// packed recommends requests for nodes that are full: a part of each node's memory stays free, and any one container on it may use that beyond its
// request. It is for containers whose memory limit does not follow the request. No profile of podfit does this yet.
//
//	memory = max(q + λ (max₇ − q), max₁₄ − R × node) / (1 − R)
//	CPU    = the percentile
//
// q and the percentile are of the hourly peaks of 7 days, max₇ and max₁₄ the highest memory usage of 7 and 14 days.
type packed struct {
	node float64 // allocatable memory, in bytes
}

// The parameters of packed. docs/backtest.md says how they were chosen.
const (
	packedMemory  = 0.75
	packedCPU     = 0.8
	packedPeak    = 0.2  // λ
	packedReserve = 0.15 // R
	shortHours    = 7 * 24
	longHours     = 14 * 24
)

// The bounds relative to the target are those of the other profiles that are meant for resizes in place.
const (
	lowerBand = 0.95
	upperBand = 1.08
)

// packedProfile returns packed as a profile, for nodes with an amount of allocatable memory in bytes. The minimum of a container is that of balanced.
func packedProfile(node float64) recommend.Profile {
	p, _ := recommend.Builtin("balanced")
	p.Name, p.Estimator, p.OOMBudget = "packed", packed{node}, 0
	p.Extend = func() usage.Extension {
		return &peaks{cpu: hourly.NewPeaks(shortHours), memory: hourly.NewPeaks(longHours)}
	}
	return p
}

// Estimate implements recommend.Estimator.
func (p packed) Estimate(s *usage.ContainerHistory, floor cluster.Resources, _ time.Time, _ *derivation.Record) (e cluster.Estimate) {
	state, ok := s.Extension().(*peaks)
	if !ok {
		return e
	}
	for _, r := range cluster.All {
		if amount := state.amount(r, p.node); amount > 0 {
			amount = max(amount, floor.Amount(r))
			e.Target = e.Target.Set(r, amount)
			e.Lower = e.Lower.Set(r, max(int64(lowerBand*float64(amount)), floor.Amount(r)))
			e.Upper = e.Upper.Set(r, int64(upperBand*float64(amount)))
		}
	}
	return e
}

// peaks is the model state: the hourly peaks.
type peaks struct {
	usage.Unstored
	cpu, memory hourly.Peaks
}

// amount returns the request of a container, in millicores or bytes; 0 if there are no samples. node is the allocatable memory of a node, in bytes.
func (m *peaks) amount(r cluster.Resource, node float64) int64 {
	of := cluster.Pick(r, &m.cpu, &m.memory)
	if of.Empty() {
		return 0
	}
	end := of.Newest() + 1
	hours := of.AppendHours(nil, end-shortHours, end)
	slices.Sort(hours)
	usual := hours[int(cluster.Pick(r, packedCPU, packedMemory)*float64(len(hours)-1))].Amount()
	if r == cluster.CPU {
		return derivation.Whole(usual*1000) + 1
	}
	request := usual + packedPeak*(hours[len(hours)-1].Amount()-usual)
	request = max(request, of.Max(end-longHours, end).Amount()-packedReserve*node)
	return derivation.Whole(request/(1-packedReserve)) + 1
}

// Observe adds a sample.
func (m *peaks) Observe(s usage.Sample, taken cluster.Set) {
	hour := int(s.At.Unix() / 3600)
	if taken.Has(cluster.CPU) {
		m.cpu.Observe(hour, s.CPU)
	}
	if taken.Has(cluster.Memory) {
		m.memory.Observe(hour, s.Memory)
	}
}

// ObserveOOM ignores OOM kills. A replay takes usage above the request for a kill, which it is not if the limit is apart from the request.
func (m *peaks) ObserveOOM(usage.OOM, int64) {}
