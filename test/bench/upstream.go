// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
)

// upstreamInput is a fleet as upstream's feeder passes it to the model.
type upstreamInput struct {
	vpas      []*vpa.VerticalPodAutoscaler
	selectors []labels.Selector
	rollouts  [][]upstreamPod // pods by template
}

type upstreamPod struct {
	id      model.ContainerID
	labels  labels.Set
	request model.Resources
}

func (f fleet) upstreamInput(rollouts int) *upstreamInput {
	in := new(upstreamInput)
	for i := range f.workloads {
		ns, app := fmt.Sprint("team-", i%100), fmt.Sprint("service-", i)
		v := &vpa.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}}
		in.vpas = append(in.vpas, v)
		in.selectors = append(in.selectors, labels.SelectorFromSet(labels.Set{"app": app}))
	}
	for r := range rollouts + 1 {
		in.rollouts = append(in.rollouts, f.upstreamPods(r))
	}
	return in
}

// upstreamPods returns the pods of one rollout. Rollouts differ in the pod template hash label.
func (f fleet) upstreamPods(rollout int) []upstreamPod {
	var ps []upstreamPod
	for i := range f.workloads {
		ns, app := fmt.Sprint("team-", i%100), fmt.Sprint("service-", i)
		for j := range f.podsEach {
			ps = append(ps, upstreamPod{
				id: model.ContainerID{
					PodID:         model.PodID{Namespace: ns, PodName: fmt.Sprintf("%s-%d-%d", app, rollout, j)},
					ContainerName: "app",
				},
				labels:  labels.Set{"app": app, "team": ns, "pod-template-hash": fmt.Sprint(rollout)},
				request: model.Resources{model.ResourceCPU: 100, model.ResourceMemory: 256 << 20},
			})
		}
	}
	return ps
}

// upstream is upstream's model and recommender.
type upstream struct {
	cluster     model.ClusterState
	recommender logic.PodResourceRecommender
	pods        []upstreamPod
	vpa         *model.Vpa
	minute      int
}

func (in *upstreamInput) load() *upstream {
	u := &upstream{cluster: model.NewClusterState(time.Hour), pods: in.rollouts[0]}
	for i, v := range in.vpas {
		must(u.cluster.AddOrUpdateVpa(v, in.selectors[i]))
	}
	u.track(u.pods)
	day := 24 * time.Hour
	u.recommender = logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: 0.15, PodMinCPUMillicores: 25, PodMinMemoryMb: 250,
		TargetCPUPercentile: 0.9, LowerBoundCPUPercentile: 0.5, UpperBoundCPUPercentile: 0.95, ConfidenceIntervalCPU: day,
		TargetMemoryPercentile: 0.9, LowerBoundMemoryPercentile: 0.5, UpperBoundMemoryPercentile: 0.95, ConfidenceIntervalMemory: day,
	})
	u.vpa = u.cluster.VPAs()[model.VpaID{Namespace: in.vpas[0].Namespace, VpaName: in.vpas[0].Name}]
	return u
}

func (u *upstream) track(pods []upstreamPod) {
	for _, p := range pods {
		u.cluster.AddOrUpdatePod(p.id.PodID, p.labels, corev1.PodRunning)
		must(u.cluster.SetInitContainers(p.id.PodID, nil))
		must(u.cluster.AddOrUpdateContainer(p.id, p.request))
	}
}

func (f fleet) upstream() *upstream { return f.upstreamInput(0).load() }

// observe adds the i-th sample: one per pod in turn, then again a minute later.
func (u *upstream) observe(i int) {
	p := &u.pods[i%len(u.pods)]
	if i%len(u.pods) == 0 {
		u.minute++
	}
	at, use := noon.Add(time.Duration(u.minute)*time.Minute), uses[i%len(uses)]
	s := model.ContainerUsageSampleWithKey{Container: p.id, ContainerUsageSample: model.ContainerUsageSample{
		MeasureStart: at, Usage: model.ResourceAmount(use.millicores), Resource: model.ResourceCPU,
	}}
	must(u.cluster.AddSample(&s))
	s.Usage, s.Resource = model.ResourceAmount(use.bytes), model.ResourceMemory
	must(u.cluster.AddSample(&s))
}

// recommend computes the recommendation for one VPA like upstream's worker, up to the list for its status.
func (u *upstream) recommend(int) {
	resources := u.recommender.GetRecommendedPodResources(routines.GetContainerNameToAggregateStateMap(u.vpa))
	list := logic.MapToListOfRecommendedContainerResources(resources, logic.RecommendationFormat{RoundCPUMillicores: 1, RoundMemoryBytes: 1})
	if len(list.ContainerRecommendations) != 1 {
		panic("upstream recommends nothing")
	}
}

// use loads the fleet and adds samples of some minutes, then repeats that with the pods of each rollout.
func (in *upstreamInput) use(minutes int) *upstream {
	u := in.load()
	for r, pods := range in.rollouts {
		if r > 0 {
			for _, p := range u.pods {
				u.cluster.DeletePod(p.id.PodID)
			}
			u.pods = pods
			u.track(pods)
		}
		for i := range minutes * len(pods) {
			u.observe(i)
		}
	}
	return u
}

func (f fleet) upstreamDay() *upstream { return f.upstreamInput(0).use(1440) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
