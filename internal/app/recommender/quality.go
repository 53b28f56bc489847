// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// quality compares one sample with the recommendation that stood when it was taken.
func (r *recommender) quality(s *cluster.Snapshot, p *cluster.Pod, sample *usage.Sample, taken cluster.Set) {
	a := r.elected(s, p.Top)
	if a == nil {
		return
	}
	controls := a.Policy(sample.Container).Controls()
	adv := a.AdviceFor(sample.Container)
	for _, res := range cluster.All {
		if !taken.Has(res) || !controls.Has(res) {
			continue
		}
		used := sample.CPU
		if res == cluster.Memory {
			used = sample.Memory
		}
		advised, known := advisedAmount(adv, res)
		r.metrics.quality.sample(a.Mode, res, used, advised, known, false)
	}
}

// advisedAmount returns a recommended amount, in cores or bytes.
func advisedAmount(adv *cluster.Advice, res cluster.Resource) (float64, bool) {
	if adv == nil {
		return 0, false
	}
	v, ok := adv.Target.Get(res)
	if res == cluster.CPU {
		return float64(v) / 1000, ok
	}
	return float64(v), ok
}

// qualityOfOOM compares the memory at which containers were killed with what was recommended.
func (r *recommender) qualityOfOOM(s *cluster.Snapshot, p *cluster.Pod) {
	a := r.elected(s, p.Top)
	if a == nil {
		return
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Exit == nil || !c.Exit.OOM || !a.Policy(c.Name).Controls().Has(cluster.Memory) {
			continue
		}
		requests, _ := c.Running()
		advised, known := advisedAmount(a.AdviceFor(c.Name), cluster.Memory)
		r.metrics.quality.sample(a.Mode, cluster.Memory, float64(requests.Memory), advised, known, true)
	}
}
