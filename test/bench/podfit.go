// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// podfitInput is a fleet as the edge passes it to the core.
type podfitInput struct {
	autoscalers []*cluster.Autoscaler
	rollouts    [][]*cluster.Pod // pods by template
}

func (f fleet) podfitInput(rollouts int) *podfitInput {
	in := new(podfitInput)
	for i := range f.workloads {
		w := workload(i)
		in.autoscalers = append(in.autoscalers, &cluster.Autoscaler{Key: cluster.Key{Namespace: w.Namespace, Name: w.Name}, Target: w})
	}
	for r := range rollouts + 1 {
		in.rollouts = append(in.rollouts, f.podfitPods(r))
	}
	return in
}

func workload(i int) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: fmt.Sprint("team-", i%100), Name: fmt.Sprint("service-", i)}
}

func (f fleet) podfitPods(rollout int) []*cluster.Pod {
	var ps []*cluster.Pod
	for i := range f.workloads {
		w := workload(i)
		for j := range f.podsEach {
			name := fmt.Sprintf("%s-%d-%d", w.Name, rollout, j)
			ps = append(ps, &cluster.Pod{
				Key: cluster.Key{Namespace: w.Namespace, Name: name}, UID: "uid-" + name, Top: w, Phase: cluster.Running,
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 256<<20)}},
			})
		}
	}
	return ps
}

// podfit is podfit's model with the default estimator.
type podfit struct {
	book      *usage.Store
	params    recommend.Params
	estimator recommend.Estimator
	pods      []*cluster.Pod
	first     *cluster.Autoscaler
	minute    int
}

func (in *podfitInput) load() *podfit {
	p := &podfit{book: usage.NewStore(usage.DefaultConfig()), params: recommend.DefaultParams(), pods: in.rollouts[0], first: in.autoscalers[0]}
	p.estimator = recommend.Default(p.params)
	for _, a := range in.autoscalers {
		p.book.Configure(a.Target, a.Policies)
	}
	p.track(p.pods)
	return p
}

func (p *podfit) track(pods []*cluster.Pod) {
	for _, pod := range pods {
		if !p.book.Track(pod) {
			panic("pod is not tracked")
		}
	}
}

func (f fleet) podfit() *podfit { return f.podfitInput(0).load() }

// observe adds the i-th sample: one per pod in turn, then again a minute later.
func (p *podfit) observe(i int) {
	pod := p.pods[i%len(p.pods)]
	if i%len(p.pods) == 0 {
		p.minute++
	}
	use := uses[i%len(uses)]
	if p.book.Observe(usage.Sample{
		Pod: pod.Key, Container: "app", At: noon.Add(time.Duration(p.minute) * time.Minute),
		CPU: float64(use.millicores) / 1000, Memory: float64(use.bytes), Has: cluster.Both,
	}) != cluster.Both {
		panic("sample is not accepted")
	}
}

func (p *podfit) recommend(int) {
	if len(recommend.Workload(p.params, p.estimator, p.book, p.first, p.first.Target, noon)) != 1 {
		panic("podfit recommends nothing")
	}
}

// use loads the fleet and adds samples of some minutes, then repeats that with the pods of each rollout.
func (in *podfitInput) use(minutes int) *podfit {
	p := in.load()
	for r, pods := range in.rollouts {
		if r > 0 {
			for _, pod := range p.pods {
				p.book.Forget(pod.Key)
			}
			p.pods = pods
			p.track(pods)
		}
		for i := range minutes * len(pods) {
			p.observe(i)
		}
	}
	return p
}

func (f fleet) podfitDay() *podfit { return f.podfitInput(0).use(1440) }
