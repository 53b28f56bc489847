// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
)

// recorded returns machines with a daily pattern, noise and rare peaks.
func recorded(machines, days int) []replay.Workload {
	random := rand.New(rand.NewPCG(1, 2))
	out := make([]replay.Workload, machines)
	for m := range out {
		name := fmt.Sprint("vm-", m)
		out[m] = replay.Workload{
			Key:  cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: name},
			Pods: []string{name + "-0"}, Containers: []string{"main"},
		}
		size := math.Exp(1.2 * random.NormFloat64())
		for i := range days * perDay {
			load := (1.5 + math.Sin(2*math.Pi*float64(i)/perDay)) * math.Exp(0.3*random.NormFloat64())
			if random.IntN(2000) == 0 {
				load *= 4
			}
			out[m].Samples = append(out[m].Samples, replay.Sample{
				At: midnight + int64(i)*interval, CPU: 0.1 * size * load, Memory: 0.3 * gib * size * (2 + load), Has: cluster.Both,
			})
		}
	}
	return out
}

// The budget for 120 machines, 45 days, all profiles and three sizes of nodes is 60 s of CPU time and 500 MB.
func BenchmarkBacktestOnNodes(b *testing.B) {
	shapes := []Shape{
		{CPU: 4, Memory: 16 * gib, Pods: DefaultPods, Copies: 4},
		{CPU: 16, Memory: 64 * gib, Pods: DefaultPods, Copies: 8},
		{CPU: 64, Memory: 256 * gib, Pods: DefaultPods, Copies: 8},
	}
	for _, machines := range []int{12, 120} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			workloads := recorded(machines, 45)
			var profiles []recommend.Profile
			for _, p := range recommend.BacktestProfiles() {
				if !p.Packs() {
					profiles = append(profiles, p)
				}
			}
			for _, s := range shapes {
				profiles = append(profiles, packs(int64(s.Memory)))
			}
			before := cpuTime(b)
			for b.Loop() {
				c := &replay.Comparison{Learning: replay.DefaultLearning, Recommenders: profiles, Workloads: make([]replay.WorkloadResult, machines)}
				c.From, c.To = time.Unix(midnight, 0), time.Unix(midnight+45*daySeconds-interval, 0)
				for i := range workloads {
					c.Workloads[i] = replay.WorkloadResult{Workload: &workloads[i]}
					for _, p := range profiles {
						c.Workloads[i].Changes = append(c.Workloads[i].Changes, replay.Run(&workloads[i], p))
					}
				}
				trace := Of(c)
				for _, s := range shapes {
					trace.Measure(s, random(), never)
				}
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "CPU-s/op")
			b.ReportMetric(float64(memory.Sys)/1e6, "MB")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
