// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// quality records the difference between one usage sample and the current recommendation. accepted is the set of resources that the usage
// store accepted. oom is true if the sample is the request of an OOM-killed container.
func (r *recommender) quality(v *view, p *cluster.Pod, sample *usage.Sample, accepted cluster.Set, oom bool) {
	a := r.elected(v, p.Top)
	if a == nil {
		return
	}
	controls := a.Policy(sample.Container).Controls()
	adv := cmp.Or(a.AdviceFor(sample.Container), new(cluster.Advice))
	for _, res := range cluster.All {
		if !accepted.Has(res) || !controls.Has(res) {
			continue
		}
		used := sample.CPU
		if res == cluster.Memory {
			used = sample.Memory
		}
		target, known := adv.Target.Get(res)
		r.metrics.quality.sample(a.Mode, res, used, res.InUnits(target), known, oom)
	}
}

// qualityOfOOM records, for each OOM-killed container of a pod, the difference between its memory request and the current
// recommendation.
func (r *recommender) qualityOfOOM(v *view, p *cluster.Pod) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Exit == nil || !c.Exit.OOM {
			continue
		}
		requests, _ := c.Running()
		r.quality(v, p, &usage.Sample{Container: c.Name, Memory: float64(requests.Memory)}, cluster.Of(cluster.Memory), true)
	}
}
