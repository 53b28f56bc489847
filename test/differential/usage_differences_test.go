// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned/fake"
	writer "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/checkpoint"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/differential/cases"
)

// newDefaultPair returns a pair with default flags and one pod.
func newDefaultPair(containers ...string) (*pair, *cluster.Pod) {
	p := newPair(recommend.DefaultParams(), usage.DefaultConfig())
	pod := podOf("cart-1", 0, containers...)
	p.add(pod)
	return p, pod
}

// steady adds the same sample every minute from a time on.
func (p *pair) steady(pod *cluster.Pod, container string, from time.Time, minutes int, r reading) {
	for m := range minutes {
		r.at = from.Add(time.Duration(m) * time.Minute)
		p.observe(pod, container, r)
	}
}

// peakTarget returns upstream's target for a container with one memory peak.
func peakTarget(bytes int64) int64 {
	p, pod := newDefaultPair("app")
	p.observe(pod, "app", reading{at: noon, memory: bytes, has: cluster.Of(cluster.Memory)})
	return p.recommended(asIs)["app"].Target.Memory
}

// differ checks the different results of both for the same input.
func differ[T comparable](t *testing.T, what string, podfit, wantPodfit, upstream, wantUpstream T) {
	t.Helper()
	if podfit != wantPodfit {
		t.Errorf("%s: podfit has %v, want %v", what, podfit, wantPodfit)
	}
	if upstream != wantUpstream {
		t.Errorf("%s: upstream has %v, want %v: the difference may no longer exist", what, upstream, wantUpstream)
	}
}

func TestRecommendation_noSamples_isAbsent(t *testing.T) {
	floor := cluster.Amounts(25, 250*mib)
	p, pod := newDefaultPair("app")
	up := p.recommended(asIs)
	differ(t, "containers without any sample", len(p.advised()), 0, len(up), 1)
	if e := up["app"]; e.Lower != floor || e.Target != floor || e.Upper != floor {
		t.Errorf("upstream recommends %v", e)
	}
	p.steady(pod, "app", noon, 10, reading{cpu: 300, has: cluster.Of(cluster.CPU)})
	differ(t, "target with samples of CPU only",
		p.advised()["app"].Target, cluster.Resources{}.Set(cluster.CPU, 350),
		p.recommended(asIs)["app"].Target, cluster.Amounts(350, 250*mib))
}

func TestRecommendation_confidence_isPerResource(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.steady(pod, "app", noon, 24*60+1, reading{memory: 600 * mib, has: cluster.Of(cluster.Memory)})
	differ(t, "upper bound of memory after a day without CPU",
		p.advised()["app"].Upper.Memory, 1_528_093_492,
		p.recommended(asIs)["app"].Upper.Memory, 100_000_000_000_000)
}

func TestUsage_zeroMemorySample_keepsWindowMoving(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.observe(pod, "app", reading{at: noon, cpu: 100, has: cluster.Of(cluster.CPU), upstreamZeros: true})
	p.steady(pod, "app", noon.Add(time.Minute), 60, reading{cpu: 100, memory: 600 * mib, has: cluster.Both})
	differ(t, "target of memory after a gap",
		p.advised()["app"].Target.Memory, peakTarget(600*mib),
		p.recommended(asIs)["app"].Target.Memory, 250*mib)
}

func TestUsage_OOMKillSeenTwice_countsOnce(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.steady(pod, "app", noon, 10, reading{cpu: 100, memory: 200 * mib, has: cluster.Both})
	at := noon.Add(time.Hour)
	if podfit, upstream := p.kill(pod, "app", at, 256*mib); !podfit || !upstream {
		t.Fatalf("podfit accepted the kill: %v, upstream: %v", podfit, upstream)
	}
	podfit, upstream := p.kill(pod, "app", at, 512*mib) // after a resize, the pod status still has the same kill
	differ(t, "takes it again", podfit, false, upstream, true)
	differ(t, "target of memory",
		p.advised()["app"].Target.Memory, peakTarget((256+100)*mib),
		p.recommended(asIs)["app"].Target.Memory, peakTarget(614*mib))
}

// restartPodfit creates only podfit again from its checkpoints, whose weights are rounded to one in ten thousand.
func (p *pair) restartPodfit(t rapid.TB, now time.Time) {
	t.Helper()
	now = now.Truncate(time.Second)
	old := p.book
	p.book = usage.NewStore(p.config)
	p.book.Configure(cart, p.autoscaler.Policies)
	for _, s := range old.All(cart) {
		c, ok := old.Checkpoint(cart, s.Container(), now)
		if !ok {
			continue
		}
		wire, err := json.Marshal(status(c))
		must(err)
		var read vpa.VerticalPodAutoscalerCheckpointStatus
		must(json.Unmarshal(wire, &read))
		if err := p.book.Restore(cart, s.Container(), checkpoint(read, c.Extra)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range p.pods {
		p.book.Track(pod)
	}
	p.sums = true
	p.rounding += 1e-3
}

func TestCheckpoint_restart_keepsOpenMemoryWindows(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.steady(pod, "app", noon, 60, reading{cpu: 100, memory: 200 * mib, has: cluster.Both})
	p.kill(pod, "app", noon.Add(time.Hour), 512*mib)
	p.restart(t, noon.Add(2*time.Hour), true, true)
	p.steady(pod, "app", noon.Add(2*time.Hour), 60, reading{cpu: 100, memory: 200 * mib, has: cluster.Both})
	differ(t, "target of memory after a restart",
		p.advised()["app"].Target.Memory, peakTarget(614*mib),
		p.recommended(asIs)["app"].Target.Memory, 250*mib)

	numbers, rounded := 0, 0
	cases.Check(t, 4000, func(t *rapid.T) { // only podfit restarts
		s := newStory(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "do") {
			case 0, 1:
				s.oom(t)
			case 2:
				s.replace(t, false)
			case 3, 4, 5, 6:
				s.pass(t)
			case 7, 8:
				s.restartPodfit(t, s.now)
			default:
				s.sample(t)
			}
		}
		n, r := s.compare(t)
		numbers, rounded = numbers+n, rounded+r
	})
	t.Logf("%d of %d numbers differ by rounding", rounded, numbers)
	if numbers > 0 && float64(rounded)/float64(numbers) > 0.002 {
		t.Error("more than two in a thousand")
	}
}

func TestUsage_policyRemoved_endsOverrides(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.configure(cluster.ContainerPolicy{Container: "app", OOMBumpRatio: 4})
	p.configure()
	p.kill(pod, "app", noon, 1000*mib)
	differ(t, "target of memory", p.advised()["app"].Target.Memory, peakTarget(1200*mib), p.recommended(asIs)["app"].Target.Memory, peakTarget(4000*mib))
}

func TestUsage_aggregationIntervalChanged_appliesAtOnce(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.observe(pod, "app", reading{at: noon, memory: 600 * mib, has: cluster.Of(cluster.Memory)})
	p.configure(cluster.ContainerPolicy{Container: "app", MemoryInterval: time.Hour})
	for h := range 20 {
		p.observe(pod, "app", reading{at: noon.Add(time.Duration(h+1) * time.Hour), memory: 300 * mib, has: cluster.Of(cluster.Memory)})
	}
	differ(t, "target of memory with 20 of 21 hours at 300Mi",
		p.advised()["app"].Target.Memory, peakTarget(300*mib),
		p.recommended(asIs)["app"].Target.Memory, peakTarget(600*mib))
}

func TestRecommendation_minimum_isSplitOverLiveContainers(t *testing.T) {
	p, old := newDefaultPair("app", "gone")
	for _, c := range []string{"app", "gone"} {
		p.steady(old, c, noon, 10, reading{cpu: 1, memory: mib, has: cluster.Both})
	}
	pod := podOf("cart-2", 0, "app")
	p.add(pod)
	p.remove(old)
	differ(t, "containers with a recommendation", len(p.advised()), 1, len(p.recommended(asIs)), 2)
	differ(t, "target of the one that is left", p.advised()["app"].Target, cluster.Amounts(25, 250*mib), p.recommended(asIs)["app"].Target, cluster.Amounts(12, 125*mib))
}

func TestUsage_targetNotFound_keepsHistory(t *testing.T) {
	p, pod := newDefaultPair("app")
	p.steady(pod, "app", noon, 60, reading{cpu: 1000, memory: 200 * mib, has: cluster.Both})
	p.restart(t, noon.Add(25*time.Hour), true, true)

	must(p.upstream.AddOrUpdateVpa(p.object, labels.Nothing())) // the selector of upstream if the target cannot be resolved
	p.book.Release(cart)
	p.book.Prune(noon.Add(25 * time.Hour))

	must(p.upstream.AddOrUpdateVpa(p.object, selector))
	p.vpa = p.upstream.VPAs()[model.VpaID{Namespace: "shop", VpaName: "cart"}]
	p.book.Configure(cart, nil)
	p.steady(pod, "app", noon.Add(26*time.Hour), 2, reading{cpu: 1, memory: 200 * mib, has: cluster.Both})
	differ(t, "target of CPU after an hour at one core and two minutes at next to nothing",
		p.advised()["app"].Target.CPU, 1168, p.recommended(asIs)["app"].Target.CPU, 25)
}

func TestUsage_implausibleSamples_areRejected(t *testing.T) {
	for name, r := range map[string]reading{
		"a million cores": {at: noon, cpu: 1e9, has: cluster.Of(cluster.CPU)},
		"a petabyte":      {at: noon, memory: 1e15, has: cluster.Of(cluster.Memory)},
	} {
		p, pod := newDefaultPair("app")
		podfit, upstream := p.observe(pod, "app", r)
		differ(t, name, podfit, 0, upstream, r.has)
	}
	p, pod := newDefaultPair("app") // both refuse negative values
	podfit, upstream := p.observe(pod, "app", reading{at: noon, cpu: -1, memory: -1, has: cluster.Both})
	differ(t, "negative", podfit, 0, upstream, 0)
}

func TestRecommendation_bounds_stayOrdered(t *testing.T) {
	params := recommend.DefaultParams()
	params.CPU = recommend.Percentiles{Lower: 0.99, Target: 0.5, Upper: 0.01}
	p := newPair(params, usage.DefaultConfig())
	pod := podOf("cart-1", 0, "app")
	p.add(pod)
	for m := range 10 * 24 * 60 {
		p.observe(pod, "app", reading{at: noon.Add(time.Duration(m) * time.Minute), cpu: int64(10 + m%1000), has: cluster.Of(cluster.CPU)})
	}
	ordered := func(e cluster.Estimate) bool { return e.Lower.CPU <= e.Target.CPU && e.Target.CPU <= e.Upper.CPU }
	differ(t, "lower ≤ target ≤ upper", ordered(p.advised()["app"]), true, ordered(p.recommended(asIs)["app"]), false)
}

func TestCheckpoint_impossibleContent_isRefused(t *testing.T) {
	good := func() vpa.VerticalPodAutoscalerCheckpointStatus {
		p, pod := newDefaultPair("app")
		p.steady(pod, "app", noon, 60, reading{cpu: 100, memory: 200 * mib, has: cluster.Both})
		return p.checkpoints(noon.Add(25 * time.Hour))["app"]
	}
	for name, change := range map[string]func(*vpa.VerticalPodAutoscalerCheckpointStatus){
		"a total that is not a number":     func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.TotalWeight = math.NaN() },
		"an infinite total":                func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.TotalWeight = math.Inf(1) },
		"weights without a reference time": func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.ReferenceTimestamp = metav1.Time{} },
		"a first sample after the last":    func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.FirstSampleStart = metav1.NewTime(noon.Add(day)) },
	} {
		s := good()
		change(&s)
		err := model.NewAggregateContainerState().LoadFromCheckpoint(&s)
		differ(t, name, usage.NewStore(usage.DefaultConfig()).Restore(cart, "app", checkpoint(s, nil)) == nil, false, err == nil, true)
	}
	for name, change := range map[string]func(*vpa.VerticalPodAutoscalerCheckpointStatus){ // both refuse
		"a negative total": func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.MemoryHistogram.TotalWeight = -1 },
		"a bucket below":   func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.BucketWeights[-1] = 1 },
		"a bucket above":   func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.BucketWeights[176] = 1 },
		"another version":  func(s *vpa.VerticalPodAutoscalerCheckpointStatus) { s.Version = "v2" },
	} {
		s := good()
		change(&s)
		err := model.NewAggregateContainerState().LoadFromCheckpoint(&s)
		differ(t, name, usage.NewStore(usage.DefaultConfig()).Restore(cart, "app", checkpoint(s, nil)) == nil, false, err == nil, false)
	}
}

// Upstream's checkpoint writer writes what the comparisons use as upstream's checkpoints.
func TestCheckpoint_upstreamWriter_writesEqualContent(t *testing.T) {
	p, pod := newDefaultPair("app", "log")
	other := podOf("cart-2", 0, "app", "log")
	p.add(other)
	start := time.Now().UTC().Truncate(time.Second).Add(-40 * time.Hour) // upstream's writer uses the system clock
	for m := range 40 * 60 {
		at := start.Add(time.Duration(m) * time.Minute)
		p.observe(pod, "app", reading{at: at, cpu: int64(m%700) + 1, memory: int64(m+1) * mib, has: cluster.Both})
		p.observe(other, "app", reading{at: at.Add(time.Second), cpu: int64(m%300) + 1, has: cluster.Of(cluster.CPU)}) // upstream sums open windows in random order
		p.observe(pod, "log", reading{at: at, cpu: 1, memory: 50 * mib, has: cluster.Both})
	}
	client := fake.NewSimpleClientset()
	writer.NewCheckpointWriter(p.upstream, client.AutoscalingV1()).StoreCheckpoints(t.Context(), 1)
	written, err := client.AutoscalingV1().VerticalPodAutoscalerCheckpoints("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := p.checkpoints(time.Now())
	if len(written.Items) != len(want) {
		t.Fatalf("%d checkpoints, upstream writes %d", len(want), len(written.Items))
	}
	for _, w := range written.Items {
		c := want[w.Spec.ContainerName]
		c.LastUpdateTime = w.Status.LastUpdateTime
		got, err := json.Marshal(c)
		must(err)
		wrote, err := json.Marshal(w.Status)
		must(err)
		if string(got) != string(wrote) {
			t.Errorf("%s:\n%s\nupstream writes\n%s", w.Spec.ContainerName, got, wrote)
		}
	}
}
