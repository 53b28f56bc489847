// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// BenchmarkOf measures the overview of 10,000 workloads with 10 pods each. A page waits for it at most every five seconds.
func BenchmarkOf(b *testing.B) {
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	var samples []usage.Sample
	for i := range 10_000 {
		w := deployment(fmt.Sprint("ns", i%200), fmt.Sprint("w", i))
		for j := range 10 {
			p := pod(w, fmt.Sprint(w.Name, "-", j), cluster.Amounts(500, 600*mi))
			pods = append(pods, p)
			samples = append(samples, usage.Sample{Pod: p.Key, Container: "app", At: now, CPU: 0.1, Memory: 1e8, Has: cluster.Both})
		}
		autoscalers = append(autoscalers, autoscaler(w, cluster.Amounts(200, 300*mi)))
	}
	w := worldOf(pods, autoscalers...)
	w.Samples = slices.Clip(samples)
	b.ReportAllocs()
	for b.Loop() {
		Of(w)
	}
}
