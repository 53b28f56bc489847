// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// quality records the difference between one usage sample and the current recommendation. accepted is the set of resources
// whose usage the usage store accepted.
func (r *recommender) quality(v *view, p *cluster.Pod, sample *usage.Sample, accepted cluster.Set) {
	a := r.elected(v, p.Top)
	if a == nil {
		return
	}
	controls := a.Policy(sample.Container).Controls()
	adv := a.AdviceFor(sample.Container)
	for _, res := range cluster.All {
		if !accepted.Has(res) || !controls.Has(res) {
			continue
		}
		used := sample.CPU
		if res == cluster.Memory {
			used = sample.Memory
		}
		target, known := targetAmount(adv, res)
		r.metrics.quality.sample(a.Mode, res, used, target, known, false)
	}
}

// targetAmount returns the recommended target of a resource in cores or bytes, and whether there is one.
func targetAmount(adv *cluster.Advice, res cluster.Resource) (float64, bool) {
	if adv == nil {
		return 0, false
	}
	v, ok := adv.Target.Get(res)
	if res == cluster.CPU {
		return float64(v) / 1000, ok
	}
	return float64(v), ok
}

// qualityOfOOM records, for each OOM-killed container of a pod, the difference between its memory request and the current
// recommendation.
func (r *recommender) qualityOfOOM(v *view, p *cluster.Pod) {
	a := r.elected(v, p.Top)
	if a == nil {
		return
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Exit == nil || !c.Exit.OOM || !a.Policy(c.Name).Controls().Has(cluster.Memory) {
			continue
		}
		requests, _ := c.Running()
		target, known := targetAmount(a.AdviceFor(c.Name), cluster.Memory)
		r.metrics.quality.sample(a.Mode, cluster.Memory, float64(requests.Memory), target, known, true)
	}
}
