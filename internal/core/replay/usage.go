// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"iter"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// Usage yields the samples of the workload, sorted by time, with CPU in whole millicores, as the Metrics API reports it.
func (w *Workload) Usage() iter.Seq[usage.Sample] {
	return func(yield func(usage.Sample) bool) {
		for i := range w.Samples {
			s := &w.Samples[i]
			sample := usage.Sample{
				Pod:       cluster.Key{Namespace: w.Key.Namespace, Name: w.Pods[s.Pod]},
				Container: w.Containers[s.Container], At: time.Unix(s.At, 0).UTC(),
				CPU: wholeMillicores(s.CPU), Memory: s.Memory, Has: s.Has,
			}
			if !yield(sample) {
				return
			}
		}
	}
}
