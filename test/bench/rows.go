// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A fleet is the input of a measurement: workloads with a VPA each, their pods with one container, and the usage of the
// containers.
type fleet struct{ workloads, podsEach int }

func (f fleet) pods() int { return f.workloads * f.podsEach }

// use returns the usage of a container at one time: CPU in about twenty buckets of the histogram, memory in a few.
type use struct{ millicores, bytes int64 }

var uses = func() []use {
	rnd := rand.New(rand.NewPCG(1, 2))
	us := make([]use, 1<<12)
	for i := range us {
		us[i] = use{int64(100 * (1 + 2*rnd.Float64())), int64(200 << 20 * (1 + 0.3*rnd.Float64()))}
	}
	return us
}()

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rows are the budgets of the model. Budgets of complete passes are measured on a real control plane.
func rows(all bool) []row {
	var rs []row
	for _, n := range []int{1000, 5000, 20_000} {
		f := fleet{n, 5}
		r := row{
			what:   fmt.Sprintf("load %d autoscalers × 5 pods into the model", n),
			podfit: once(3, func() *podfitInput { return f.podfitInput(0) }, func(in *podfitInput) { in.load() }),
			budget: float64(n) / 20_000, unit: seconds,
		}
		if n <= 1000 || all {
			r.upstream = once(1, func() *upstreamInput { return f.upstreamInput(0) }, func(in *upstreamInput) { in.load() })
		}
		rs = append(rs, r)
	}
	one, thousand := fleet{1, 5}, fleet{1000, 5}
	return append(rs,
		row{"one sample, one workload", each(200_000, one.upstream, (*upstream).observe), each(1_000_000, one.podfit, (*podfit).observe), 300e-9, seconds},
		row{"one sample, among 1000 workloads", each(100_000, thousand.upstream, (*upstream).observe), each(1_000_000, thousand.podfit, (*podfit).observe), 300e-9, seconds},
		row{"allocations per sample", allocations(10_000, one.upstream, (*upstream).observe), allocations(10_000, one.podfit, (*podfit).observe), 0, count},
		row{"recommendation, 1 container, 5 pods", each(5000, one.upstreamDay, (*upstream).recommend), each(100_000, one.podfitDay, (*podfit).recommend), 3e-6, seconds},
		row{
			"recommendation after 10 rollouts",
			each(1000, func() *upstream { return one.upstreamInput(10).use(5) }, (*upstream).recommend),
			each(100_000, func() *podfit { return one.podfitInput(10).use(5) }, (*podfit).recommend), 3e-6, seconds,
		},
		row{
			"model, per container",
			heap(thousand.pods(), func() *upstreamInput { return thousand.upstreamInput(0) }, func(in *upstreamInput) *upstream { return in.use(5) }),
			heap(thousand.pods(), func() *podfitInput { return thousand.podfitInput(0) }, func(in *podfitInput) *podfit { return in.use(5) }), 500, bytes,
		},
		row{
			"model, per container after 10 rollouts",
			heap(thousand.pods(), func() *upstreamInput { return thousand.upstreamInput(10) }, func(in *upstreamInput) *upstream { return in.use(5) }),
			heap(thousand.pods(), func() *podfitInput { return thousand.podfitInput(10) }, func(in *podfitInput) *podfit { return in.use(5) }), 500, bytes,
		},
		row{"a cached pod", heap(cachedPods, nothing, upstreamPods), heap(cachedPods, nothing, podfitPods), 600, bytes},
	)
}
