// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"
)

// knowledge is what the recommender has learnt of the workload learnt.
type knowledge struct {
	length  time.Duration // of the history in its memory
	samples int           // in the checkpoint
}

// What the recommender may recommend for a workload that uses 300m and 200Mi. The minimum memory of a pod is 250Mi.
const (
	leastLearntCPU, mostLearntCPU       = 300, 600 // millicores
	leastLearntMemory, mostLearntMemory = 200 << 20, 512 << 20
)

// A crash may cost the samples since the last write of the checkpoint: at most ten minutes, of two pods every five seconds. The rest is the inaccuracy of
// the measurement.
const (
	mostForgotten        = 11 * time.Minute
	mostForgottenSamples = 2 * 12 * 11
)

// judgeKnowledge compares what podfit knows with the most that it knew before. If it may forget, what it knows now counts from now on. It returns what is
// wrong.
func (f *faulty) judgeKnowledge(ctx context.Context, mayForget bool) (wrong []string) {
	a, err := f.Autoscaler(ctx, learntSpace, "learnt")
	if err != nil {
		return []string{err.Error()}
	}
	if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
		return []string{"there is no recommendation"}
	}
	r := a.Status.Recommendation.ContainerRecommendations[0]
	cpu, memory := r.Target.Cpu().MilliValue(), r.Target.Memory().Value()
	if cpu < leastLearntCPU || cpu > mostLearntCPU || memory < leastLearntMemory || memory > mostLearntMemory {
		wrong = append(wrong, fmt.Sprintf("the target for a workload that uses 300m and 200Mi is %dm and %d bytes", cpu, memory))
	}
	now := knowledge{length: lengthOf(cpu, r.UpperBound.Cpu().MilliValue())}
	checkpoints, err := f.Checkpoints(ctx, learntSpace)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, c := range checkpoints {
		if c.Spec.VPAObjectName == "learnt" { // its name differs if one with the usual name could not be read
			now.samples = max(now.samples, c.Status.TotalSamplesCount)
		}
	}
	f.Logf("learnt: %v of history, %d samples in the checkpoint", now.length, now.samples)
	if mayForget {
		f.known = now
	}
	if f.known.length-now.length > mostForgotten {
		wrong = append(wrong, fmt.Sprintf("the bounds are of %v of history, and were of %v before", now.length, f.known.length))
	}
	if f.known.samples-now.samples > mostForgottenSamples {
		wrong = append(wrong, fmt.Sprintf("the checkpoint has %d samples, and had %d before", now.samples, f.known.samples))
	}
	f.known = knowledge{max(f.known.length, now.length), max(f.known.samples, now.samples)}
	return wrong
}

// lengthOf returns the length of the history from which the default profile computes an upper bound for usage that does not vary: the bound is the target
// multiplied by 1 + 1/c, where c is the length in days.
func lengthOf(target, upper int64) time.Duration {
	if upper <= target {
		return 1000 * 24 * time.Hour
	}
	days := float64(target) / float64(upper-target)
	return time.Duration(days * 24 * float64(time.Hour)).Round(time.Second)
}
