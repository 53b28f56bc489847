// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

const (
	day = 24 * time.Hour
	mib = 1 << 20
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cart = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
)

// A pair is upstream's recommender and podfit's, each with one VPA for one workload. Both get the same input.
type pair struct {
	params recommend.Params
	config usage.Config

	upstream    model.ClusterState
	vpa         *model.Vpa
	object      *vpa.VerticalPodAutoscaler
	recommender logic.PodResourceRecommender

	book       *usage.Store
	autoscaler *cluster.Autoscaler

	pods     []*cluster.Pod
	sums     bool    // the order of sums may differ: there was a rollout or a restart
	rounding float64 // allowed error of stored weights, as a share of the total weight
}

func newPair(params recommend.Params, config usage.Config, policies ...cluster.ContainerPolicy) *pair {
	p := &pair{params: params, config: config}
	p.autoscaler = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: cart, Policies: policies}
	p.recommender = logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: params.Margin, PodMinCPUMillicores: params.FloorMillicores, PodMinMemoryMb: params.FloorMegabytes,
		TargetCPUPercentile: params.CPU.Target, LowerBoundCPUPercentile: params.CPU.Lower, UpperBoundCPUPercentile: params.CPU.Upper,
		TargetMemoryPercentile: params.Memory.Target, LowerBoundMemoryPercentile: params.Memory.Lower, UpperBoundMemoryPercentile: params.Memory.Upper,
		ConfidenceIntervalCPU: params.CPUConfidence, ConfidenceIntervalMemory: params.MemoryConfidence,
	})
	p.start()
	return p
}

// start creates both again, without history.
func (p *pair) start() {
	aggregateBy(p.config)
	p.upstream = model.NewClusterState(time.Hour)
	p.book = usage.NewStore(p.config)
	p.configure(p.autoscaler.Policies...)
	for _, pod := range p.pods {
		p.track(pod)
	}
}

// aggregatedBy is the present configuration of upstream's code. It is global, and histograms from before a change cannot be
// merged with later ones.
var aggregatedBy usage.Config

func aggregateBy(c usage.Config) {
	if aggregatedBy == c {
		return
	}
	aggregatedBy = c
	must(features.MutableFeatureGate.Set("PerVPAConfig=true"))
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(
		c.MemoryInterval, c.MemoryCount, c.MemoryHalfLife, c.CPUHalfLife, c.OOMBumpRatio, float64(c.OOMMinBump)))
}

var selector = labels.SelectorFromSet(labels.Set{"app": "cart"})

// configure replaces the container policies of the VPA.
func (p *pair) configure(policies ...cluster.ContainerPolicy) {
	p.autoscaler.Policies = policies
	p.object = &vpa.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	if len(policies) > 0 {
		p.object.Spec.ResourcePolicy = new(vpa.PodResourcePolicy)
	}
	for i := range policies {
		p.object.Spec.ResourcePolicy.ContainerPolicies = append(p.object.Spec.ResourcePolicy.ContainerPolicies, policyOf(&policies[i]))
	}
	must(p.upstream.AddOrUpdateVpa(p.object, selector))
	p.vpa = p.upstream.VPAs()[model.VpaID{Namespace: "shop", VpaName: "cart"}]
	p.book.Configure(cart, policies)
}

// policyOf returns a policy as the API type.
func policyOf(c *cluster.ContainerPolicy) vpa.ContainerResourcePolicy {
	r := vpa.ContainerResourcePolicy{ContainerName: c.Container}
	if c.Off {
		off := vpa.ContainerScalingModeOff
		r.Mode = &off
	}
	if c.ControlsSet {
		names := []corev1.ResourceName{}
		for _, res := range cluster.All {
			if c.Controlled.Has(res) {
				names = append(names, corev1.ResourceName(res.String()))
			}
		}
		r.ControlledResources = &names
	}
	if c.OOMBumpRatio > 0 {
		r.OOMBumpUpRatio = resource.NewMilliQuantity(int64(math.Round(c.OOMBumpRatio*1000)), resource.DecimalSI)
	}
	if c.OOMMinBumpSet {
		r.OOMMinBumpUp = resource.NewQuantity(c.OOMMinBump, resource.BinarySI)
	}
	if c.MemoryInterval > 0 {
		s := int32(c.MemoryInterval / time.Second)
		r.MemoryAggregationIntervalSeconds = &s
	}
	if c.MemoryCount > 0 {
		r.MemoryAggregationIntervalCount = &c.MemoryCount
	}
	return r
}

// podOf returns a pod of the workload. Pods of different templates have different labels.
func podOf(name string, template int, containers ...string) *cluster.Pod {
	pod := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: "uid-" + name, Top: cart, Phase: cluster.Running,
		Controller: cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: fmt.Sprint("cart-", template)},
	}
	for _, c := range containers {
		pod.Containers = append(pod.Containers, cluster.Container{Name: c, Requests: cluster.Amounts(100, 256*mib)})
	}
	return pod
}

func podID(pod *cluster.Pod) model.PodID {
	return model.PodID{Namespace: pod.Namespace, PodName: pod.Name}
}

func containerID(pod *cluster.Pod, container string) model.ContainerID {
	return model.ContainerID{PodID: podID(pod), ContainerName: container}
}

func (p *pair) track(pod *cluster.Pod) {
	p.upstream.AddOrUpdatePod(podID(pod), labels.Set{"app": "cart", "pod-template-hash": pod.Controller.Name}, corev1.PodRunning)
	for i := range pod.Containers {
		c := &pod.Containers[i]
		must(p.upstream.AddOrUpdateContainer(containerID(pod, c.Name), model.Resources{model.ResourceMemory: model.ResourceAmount(c.Requests.Memory)}))
	}
	p.book.Track(pod)
}

func (p *pair) add(pod *cluster.Pod) {
	p.pods = append(p.pods, pod)
	p.track(pod)
}

func (p *pair) remove(pod *cluster.Pod) {
	p.pods = slices.DeleteFunc(p.pods, func(x *cluster.Pod) bool { return x == pod })
	p.upstream.DeletePod(podID(pod))
	p.book.Forget(pod.Key)
}

// A reading is a usage sample of a container, in millicores and bytes.
type reading struct {
	at            time.Time
	cpu, memory   int64
	has           cluster.Set
	upstreamZeros bool // upstream gets zero for a missing resource, as from its metrics client
}

// observe adds a sample to both and returns what podfit and upstream accepted.
func (p *pair) observe(pod *cluster.Pod, container string, r reading) (podfit, upstream cluster.Set) {
	for _, res := range cluster.All {
		amount, name := r.cpu, model.ResourceCPU
		if res == cluster.Memory {
			amount, name = r.memory, model.ResourceMemory
		}
		if !r.has.Has(res) {
			if !r.upstreamZeros {
				continue
			}
			amount = 0
		}
		if p.upstream.AddSample(&model.ContainerUsageSampleWithKey{Container: containerID(pod, container), ContainerUsageSample: model.ContainerUsageSample{
			MeasureStart: r.at, Usage: model.ResourceAmount(amount), Resource: name,
		}}) == nil {
			upstream = upstream.With(res)
		}
	}
	podfit = p.book.Observe(usage.Sample{
		Pod: pod.Key, Container: container, At: r.at, CPU: float64(r.cpu) / 1000, Memory: float64(r.memory), Has: r.has,
	})
	return podfit, upstream
}

// kill adds an OOM kill to both and returns whether each accepted it.
func (p *pair) kill(pod *cluster.Pod, container string, at time.Time, memory int64) (podfit, upstream bool) {
	upstream = p.upstream.RecordOOM(containerID(pod, container), at, model.ResourceAmount(memory)) == nil
	podfit = p.book.ObserveOOM(usage.OOM{Pod: pod.Key, Container: container, At: at, Memory: memory})
	return podfit, upstream
}

// recommended returns upstream's recommendation, rounded as in the status. The function may change the aggregated state
// before.
func (p *pair) recommended(change func(name string, s *model.AggregateContainerState) *model.AggregateContainerState) map[string]cluster.Estimate {
	states := routines.GetContainerNameToAggregateStateMap(p.vpa)
	for name, s := range states {
		states[name] = change(name, s)
	}
	list := logic.MapToListOfRecommendedContainerResources(p.recommender.GetRecommendedPodResources(states), logic.RecommendationFormat{
		RoundCPUMillicores: int(p.params.RoundMillicores), RoundMemoryBytes: int(p.params.RoundBytes),
	})
	es := map[string]cluster.Estimate{}
	for _, c := range list.ContainerRecommendations {
		es[c.ContainerName] = cluster.Estimate{Lower: amounts(c.LowerBound), Target: amounts(c.Target), Upper: amounts(c.UpperBound)}
	}
	return es
}

func amounts(l corev1.ResourceList) cluster.Resources {
	var r cluster.Resources
	if q, ok := l[corev1.ResourceCPU]; ok {
		r = r.Set(cluster.CPU, q.MilliValue())
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		r = r.Set(cluster.Memory, q.Value())
	}
	return r
}

func asIs(_ string, s *model.AggregateContainerState) *model.AggregateContainerState { return s }

// advised returns podfit's recommendation.
func (p *pair) advised() map[string]cluster.Estimate {
	es := map[string]cluster.Estimate{}
	for _, a := range recommend.Workload(p.params, recommend.Default(p.params), p.book, p.autoscaler, cart, noon) {
		es[a.Container] = a.Estimate
	}
	return es
}

// predicted returns the expected recommendation of podfit, computed with upstream's code: memory with the confidence of its own
// samples ("confidence per resource"), and nothing without a sample ("no recommendation without data").
func (p *pair) predicted() map[string]cluster.Estimate {
	empty := map[string]cluster.Set{}
	cpu := p.recommended(func(name string, s *model.AggregateContainerState) *model.AggregateContainerState {
		if s.AggregateCPUUsage.IsEmpty() {
			empty[name] = empty[name].With(cluster.CPU)
		}
		if s.AggregateMemoryPeaks.IsEmpty() {
			empty[name] = empty[name].With(cluster.Memory)
		}
		return s
	})
	memory := p.recommended(func(name string, s *model.AggregateContainerState) *model.AggregateContainerState {
		if series := p.book.Series(cart, name); series != nil {
			seen := series.Seen(cluster.Memory)
			s.FirstSampleStart, s.LastSampleStart, s.TotalSamplesCount = seen.First, seen.Last, seen.Count
		}
		return s
	})
	for name, e := range cpu {
		m := memory[name]
		for _, x := range []struct{ to, from *cluster.Resources }{{&e.Lower, &m.Lower}, {&e.Target, &m.Target}, {&e.Upper, &m.Upper}} {
			if _, ok := x.to.Get(cluster.Memory); ok {
				*x.to = x.to.Set(cluster.Memory, x.from.Memory)
			}
			for _, res := range cluster.All {
				if empty[name].Has(res) {
					*x.to = x.to.Unset(res)
				}
			}
		}
		if e.Target.Has.Empty() {
			delete(cpu, name)
		} else {
			cpu[name] = e
		}
	}
	return cpu
}

// compare checks that podfit's recommendation equals upstream's, except for the differences. It returns the number of compared
// values, and how many of them differ by rounding.
func (p *pair) compare(t rapid.TB) (numbers, rounded int) {
	t.Helper()
	got, want := p.advised(), p.predicted()
	if len(got) != len(want) {
		t.Fatalf("podfit recommends for %d containers, upstream for %d", len(got), len(want))
	}
	for name, w := range want {
		g := got[name]
		for _, x := range []struct {
			what            string
			got, want       cluster.Resources
			cpuAt, memoryAt float64
		}{
			{"lower bound", g.Lower, w.Lower, p.params.CPU.Lower, p.params.Memory.Lower},
			{"target", g.Target, w.Target, p.params.CPU.Target, p.params.Memory.Target},
			{"upper bound", g.Upper, w.Upper, p.params.CPU.Upper, p.params.Memory.Upper},
		} {
			for _, res := range cluster.All {
				numbers++
				gv, gok := x.got.Get(res)
				wv, wok := x.want.Get(res)
				if gv == wv && gok == wok {
					continue
				}
				at := x.cpuAt
				if res == cluster.Memory {
					at = x.memoryAt
				}
				if gok && wok && p.sums && p.edge(t, name, res, at) {
					rounded++
					continue
				}
				t.Fatalf("%s: %s of %v is %d (set %v), upstream's %d (set %v)", name, x.what, res, gv, gok, wv, wok)
			}
		}
	}
	return numbers, rounded
}

// edge reports whether a percentile is so close to the limit of a bucket that weights below epsilon, or the order of sums,
// decide on which side it is.
func (p *pair) edge(t rapid.TB, container string, res cluster.Resource, at float64) bool {
	s := p.book.Series(cart, container)
	state := routines.GetContainerNameToAggregateStateMap(p.vpa)[container]
	h, theirs := &s.CPU, state.AggregateCPUUsage
	if res == cluster.Memory {
		h, theirs = &s.Memory, state.AggregateMemoryPeaks
	}
	c, err := theirs.SaveToChekpoint()
	if err != nil {
		t.Fatal(err)
	}
	// Weights are relative to a reference time that depends on the order of samples, so either one may be smaller.
	near := 1e-9 + p.rounding + 50*histogram.Epsilon/min(c.TotalWeight, h.Total())
	sum := 0.0
	for _, w := range h.All() {
		if sum += w; math.Abs(sum/h.Total()-at) < near {
			return true
		}
	}
	return false
}

// checkpoints returns upstream's checkpoint of each container at a time, as its checkpoint writer computes it: the merged state
// without the peaks of open windows.
func (p *pair) checkpoints(now time.Time) map[string]vpa.VerticalPodAutoscalerCheckpointStatus {
	states := p.vpa.AggregateStateByContainerName()
	for _, pod := range p.upstream.Pods() {
		for name, c := range pod.Containers {
			if p.vpa.UsesAggregation(p.upstream.MakeAggregateStateKey(pod, name)) && now.Before(c.WindowEnd) {
				states[name].AggregateMemoryPeaks.SubtractSample(model.BytesFromMemoryAmount(c.GetMaxMemoryPeak()), 1, c.WindowEnd)
			}
		}
	}
	cs := map[string]vpa.VerticalPodAutoscalerCheckpointStatus{}
	for name, s := range states {
		c, err := s.SaveToCheckpoint()
		must(err)
		c.LastUpdateTime = metav1.NewTime(now)
		cs[name] = *c
	}
	return cs
}

// status returns podfit's checkpoint of a container as upstream's type.
func status(c usage.Checkpoint) vpa.VerticalPodAutoscalerCheckpointStatus {
	at := func(t time.Time) metav1.Time {
		if t.IsZero() {
			return metav1.Time{}
		}
		return metav1.NewTime(t)
	}
	return vpa.VerticalPodAutoscalerCheckpointStatus{
		LastUpdateTime: at(c.Updated), Version: c.Version, CPUHistogram: stored(c.CPU), MemoryHistogram: stored(c.Memory),
		FirstSampleStart: at(c.FirstSample), LastSampleStart: at(c.LastSample), TotalSamplesCount: c.Samples,
	}
}

// checkpoint returns a status together with podfit's additional state.
func checkpoint(s vpa.VerticalPodAutoscalerCheckpointStatus, extra []byte) usage.Checkpoint {
	return usage.Checkpoint{
		Updated: s.LastUpdateTime.Time, Version: s.Version, CPU: loaded(s.CPUHistogram), Memory: loaded(s.MemoryHistogram),
		FirstSample: s.FirstSampleStart.Time, LastSample: s.LastSampleStart.Time, Samples: s.TotalSamplesCount, Extra: extra,
	}
}

// restart creates both again from the checkpoints of one of them. Podfit's additional state is used only with its own
// checkpoints, and only on request.
func (p *pair) restart(t rapid.TB, now time.Time, fromPodfit, keepExtra bool) {
	t.Helper()
	now = now.Truncate(time.Second)
	statuses, extras := p.checkpoints(now), map[string][]byte{}
	if fromPodfit {
		for name := range statuses {
			c, ok := p.book.Checkpoint(cart, name, now)
			if !ok {
				delete(statuses, name)
				continue
			}
			statuses[name] = status(c)
			if keepExtra {
				extras[name] = c.Extra
			}
		}
	}
	p.sums = true
	pods := p.pods
	p.pods = nil
	p.start()
	p.pods = pods
	for name, s := range statuses {
		wire, err := json.Marshal(s)
		must(err)
		var read vpa.VerticalPodAutoscalerCheckpointStatus
		must(json.Unmarshal(wire, &read))
		state := model.NewAggregateContainerState()
		if err := state.LoadFromCheckpoint(&read); err != nil {
			t.Fatalf("upstream refused the checkpoint: %v", err)
		}
		p.vpa.ContainersInitialAggregateState[name] = state
		if err := p.book.Restore(cart, name, checkpoint(read, extras[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		p.track(pod)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
