// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/differential/cases"
)

// drawParams returns upstream's defaults or other valid flags.
func drawParams(t *rapid.T) (recommend.Params, usage.Config) {
	p, c := recommend.DefaultParams(), usage.DefaultConfig()
	if rapid.Bool().Draw(t, "default flags") {
		return p, c
	}
	p.Margin = rapid.SampledFrom([]float64{0, 0.1, 0.15, 0.333, 1}).Draw(t, "margin")
	percentiles := []recommend.Percentiles{{Lower: 0.5, Target: 0.9, Upper: 0.95}, {Lower: 0.25, Target: 0.5, Upper: 1}, {Lower: 0.9, Target: 0.95, Upper: 0.99}}
	p.CPU = rapid.SampledFrom(percentiles).Draw(t, "cpu percentiles")
	p.Memory = rapid.SampledFrom(percentiles).Draw(t, "memory percentiles")
	durations := rapid.SampledFrom([]time.Duration{time.Hour, 10 * time.Hour, day, 3 * day})
	p.CPUConfidence, p.MemoryConfidence = durations.Draw(t, "cpu confidence"), durations.Draw(t, "memory confidence")
	p.FloorMillicores = rapid.SampledFrom([]float64{0, 1, 10, 25, 33.3}).Draw(t, "cpu floor")
	p.FloorMegabytes = rapid.SampledFrom([]float64{0, 1.5, 100, 250}).Draw(t, "memory floor")
	p.RoundMillicores = rapid.SampledFrom([]int64{1, 5, 100}).Draw(t, "cpu rounding")
	p.RoundBytes = rapid.SampledFrom([]int64{1, 4096, 64 * mib}).Draw(t, "memory rounding")
	c.CPUHalfLife, c.MemoryHalfLife = durations.Draw(t, "cpu half-life"), durations.Draw(t, "memory half-life")
	c.MemoryInterval = durations.Draw(t, "memory interval")
	c.MemoryCount = rapid.Int64Range(1, 10).Draw(t, "memory count")
	c.OOMBumpRatio = rapid.SampledFrom([]float64{1, 1.2, 2.5}).Draw(t, "bump ratio")
	c.OOMMinBump = rapid.SampledFrom([]int64{0, 100 * mib, 1 << 30}).Draw(t, "min bump")
	return p, c
}

func drawPolicies(t *rapid.T, containers []string) []cluster.ContainerPolicy {
	var ps []cluster.ContainerPolicy
	for _, name := range append([]string{"*"}, containers...) {
		if rapid.IntRange(0, 3).Draw(t, "has policy") > 0 {
			continue
		}
		p := cluster.ContainerPolicy{Container: name}
		switch rapid.IntRange(0, 7).Draw(t, "policy") {
		case 0:
			p.Off = true
		case 1:
			p.ControlsSet, p.Controlled = true, cluster.Set(rapid.IntRange(0, 3).Draw(t, "controlled"))
		case 2:
			p.OOMBumpRatio = rapid.SampledFrom([]float64{1, 1.5, 1.75, 3}).Draw(t, "bump ratio")
		case 3:
			p.OOMMinBumpSet, p.OOMMinBump = true, rapid.SampledFrom([]int64{0, 50 * mib, 1 << 30}).Draw(t, "min bump")
		case 4:
			p.MemoryInterval = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 2 * day}).Draw(t, "interval")
		case 5:
			p.MemoryCount = rapid.Int64Range(1, 9).Draw(t, "count")
		}
		ps = append(ps, p)
	}
	return ps
}

// A story is a random sequence of events of a workload, applied to both.
type story struct {
	*pair
	now        time.Time
	containers []string
	pods       int // number of pods created
	template   int
	jumps      bool // includes long pauses
	killed     map[string]time.Time
}

func newStory(t *rapid.T) *story {
	params, config := drawParams(t)
	s := &story{now: noon.Add(time.Duration(rapid.IntRange(0, 3*day36).Draw(t, "start")) * time.Second)}
	s.containers = []string{"app", "log", "mesh", "vault"}[:rapid.IntRange(1, 4).Draw(t, "containers")]
	s.pair = newPair(params, config, drawPolicies(t, s.containers)...)
	s.jumps = rapid.IntRange(0, 4).Draw(t, "jumps") == 0
	for range rapid.IntRange(1, 4).Draw(t, "pods") {
		s.newPod()
	}
	return s
}

const day36 = 36 * 3600

func (s *story) newPod() {
	s.pods++
	s.add(podOf(fmt.Sprint("cart-", s.pods), s.template, s.containers...))
}

func (s *story) pass(t *rapid.T) {
	switch k := rapid.IntRange(0, 9).Draw(t, "time"); {
	case k == 0:
		s.now = s.now.Add(time.Duration(rapid.IntRange(0, day36).Draw(t, "seconds")) * time.Second)
	case k == 1 && s.jumps:
		s.now = s.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "hours")) * time.Hour)
	default:
		s.now = s.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
	}
}

func (s *story) pod(t *rapid.T) (*cluster.Pod, string) {
	return rapid.SampledFrom(s.pair.pods).Draw(t, "pod"), rapid.SampledFrom(s.containers).Draw(t, "container")
}

// sample adds some samples of a container, a minute apart.
func (s *story) sample(t *rapid.T) {
	pod, container := s.pod(t)
	cpu := rapid.SampledFrom([]int64{0, 5, 50, 500, 5000}).Draw(t, "cpu")
	memory := rapid.SampledFrom([]int64{mib, 20 * mib, 200 * mib, 2000 * mib}).Draw(t, "memory")
	has := cluster.Both
	if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
		has = cluster.Set(rapid.IntRange(0, 3).Draw(t, "has"))
	}
	for range rapid.IntRange(1, 8).Draw(t, "minutes") {
		at := s.now
		if rapid.IntRange(0, 19).Draw(t, "late") == 0 {
			at = at.Add(-time.Duration(rapid.IntRange(0, 3600).Draw(t, "by")) * time.Second)
		}
		r := reading{
			at: at, has: has,
			cpu:    cpu + rapid.Int64Range(0, cpu).Draw(t, "+cpu"),
			memory: memory + rapid.Int64Range(0, memory).Draw(t, "+memory"),
		}
		got, want := s.observe(pod, container, r)
		// Podfit treats the second of two memory samples with the same time as a repetition, although it may raise the peak.
		if got != want && (got.With(cluster.Memory) != want || s.book.Rejected(usage.Repeated) == 0) {
			t.Fatalf("podfit accepted %v, upstream %v", got, want)
		}
		s.now = s.now.Add(time.Minute)
	}
}

func (s *story) oom(t *rapid.T) {
	pod, container := s.pod(t)
	at := s.now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "ago")) * time.Second)
	if rapid.IntRange(0, 9).Draw(t, "old") == 0 {
		at = at.Add(-time.Duration(rapid.IntRange(0, 80).Draw(t, "hours ago")) * time.Hour)
	}
	memory := rapid.SampledFrom([]int64{1, 100 * mib, 256 * mib, 3000 * mib}).Draw(t, "request")
	if s.killed == nil {
		s.killed = map[string]time.Time{}
	}
	key := pod.Name + "/" + container
	if !at.After(s.killed[key]) {
		return // "one OOM kill counts once": not later than an earlier one
	}
	s.killed[key] = at
	if got, want := s.kill(pod, container, at, memory); got != want {
		t.Fatalf("podfit accepted the OOM kill: %v, upstream: %v", got, want)
	}
}

// reconfigure changes the OOM settings of the policies. It does not remove settings or change the interval, because those lead
// to differences.
func (s *story) reconfigure(t *rapid.T) {
	policies := slices.Clone(s.autoscaler.Policies)
	for i := range policies {
		if policies[i].OOMBumpRatio > 0 {
			policies[i].OOMBumpRatio = rapid.SampledFrom([]float64{1, 1.1, 2}).Draw(t, "bump ratio")
		}
		if policies[i].OOMMinBumpSet {
			policies[i].OOMMinBump = rapid.SampledFrom([]int64{0, 10 * mib, 3 << 30}).Draw(t, "min bump")
		}
	}
	s.configure(policies...)
}

// replace deletes a pod and creates another one, possibly from another template.
func (s *story) replace(t *rapid.T, rollout bool) {
	pod, _ := s.pod(t)
	if rollout {
		s.template++
		s.sums = true
	}
	s.newPod()
	s.remove(pod)
}

// Recommendations are equal to the unit for any usage and flags, while pods are created, deleted and OOM killed, and samples are
// late, repeated or missing.
func TestRecommendation_randomUsage_equalsUpstream(t *testing.T) {
	numbers := 0
	cases.Check(t, 6000, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "do") {
			case 0, 1:
				s.oom(t)
			case 2:
				s.replace(t, false)
			case 3, 4, 5, 6:
				s.pass(t)
			case 7:
				n, _ := s.compare(t)
				numbers += n
			case 8:
				s.reconfigure(t)
			default:
				s.sample(t)
			}
		}
		n, _ := s.compare(t)
		numbers += n
	})
	t.Logf("%d numbers are equal", numbers)
}

// After rollouts, and after restarts from checkpoints of podfit or upstream, recommendations differ only by rounding: a percentile at the
// boundary of a histogram bucket can fall into either bucket.
func TestUsage_rollouts_changeOnlyRounding(t *testing.T) {
	numbers, rounded := 0, 0
	cases.Check(t, 6000, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "do") {
			case 0:
				s.oom(t)
			case 1:
				s.replace(t, true)
			case 2:
				s.restart(t, s.now, rapid.Bool().Draw(t, "from podfit"), false)
				s.killed = nil
			case 3, 4, 5, 6:
				s.pass(t)
			default:
				s.sample(t)
			}
		}
		n, r := s.compare(t)
		numbers, rounded = numbers+n, rounded+r
	})
	t.Logf("%d of %d numbers differ by rounding", rounded, numbers)
	if numbers > 0 && float64(rounded)/float64(numbers) > 0.001 {
		t.Error("more than one in a thousand")
	}
}

// Checkpoints of one pod are equal byte for byte. With more pods, upstream sums in random order.
func TestCheckpoint_randomUsage_equalsUpstream(t *testing.T) {
	cases.Check(t, 4000, func(t *rapid.T) {
		s := newStory(t)
		for len(s.pair.pods) > 1 {
			s.remove(s.pair.pods[0])
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0:
				s.oom(t)
			case 1, 2:
				s.pass(t)
			default:
				s.sample(t)
			}
		}
		for name, want := range s.checkpoints(s.now.Truncate(time.Second)) {
			c, ok := s.book.Checkpoint(cart, name, s.now)
			if !ok {
				c = usage.Checkpoint{Updated: s.now.Truncate(time.Second), Version: "v3"} // no samples
			}
			equal(t, status(c), want)
		}
	})
}

func equal(t *rapid.T, got, want vpa.VerticalPodAutoscalerCheckpointStatus) {
	t.Helper()
	// Upstream has an empty map instead of no map; both have the same encoding.
	g, err := json.Marshal(got)
	must(err)
	w, err := json.Marshal(want)
	must(err)
	if string(g) != string(w) {
		t.Fatalf("checkpoint is\n%s\nupstream's\n%s", g, w)
	}
}

// Checkpoints of several pods, with restarts, are equal except for rounding.
func TestCheckpoint_manyPods_equalsUpstream(t *testing.T) {
	cases.Check(t, 4000, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0:
				s.oom(t)
			case 1:
				s.replace(t, false)
			case 2:
				if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
					s.restart(t, s.now, rapid.Bool().Draw(t, "from podfit"), false)
					s.killed = nil
				}
			case 3:
				s.pass(t)
			default:
				s.sample(t)
			}
		}
		for name, want := range s.checkpoints(s.now.Truncate(time.Second)) {
			c, ok := s.book.Checkpoint(cart, name, s.now)
			if !ok {
				continue
			}
			got := status(c)
			series := s.book.Series(cart, name)
			for _, h := range []struct {
				got, want vpa.HistogramCheckpoint
				live      float64
			}{{got.CPUHistogram, want.CPUHistogram, series.CPU.Total()}, {got.MemoryHistogram, want.MemoryHistogram, series.Memory.Total()}} {
				if h.live*1e-16 > min(h.got.TotalWeight, h.want.TotalWeight)*1e-9 {
					continue // only rounding errors remain after open windows with a million times the weight were subtracted
				}
				weights := both(h.got.BucketWeights, h.want.BucketWeights)
				lost, off := 0.0, int64(1)
				if s.sums { // weights below epsilon are dropped earlier from two histories than from one
					lost = 10 * histogram.Epsilon
					off += int64(10_000 * lost * float64(len(weights)) / h.want.TotalWeight)
				}
				if math.Abs(h.got.TotalWeight-h.want.TotalWeight) > lost+1e-9*h.want.TotalWeight || !h.got.ReferenceTimestamp.Equal(&h.want.ReferenceTimestamp) {
					t.Fatalf("%s: %+v, upstream's %+v", name, h.got, h.want)
				}
				for b := range weights {
					if d := int64(h.got.BucketWeights[b]) - int64(h.want.BucketWeights[b]); d < -off || d > off {
						t.Fatalf("%s: bucket %d has %d, upstream's %d", name, b, h.got.BucketWeights[b], h.want.BucketWeights[b])
					}
				}
			}
			got.CPUHistogram, got.MemoryHistogram = want.CPUHistogram, want.MemoryHistogram
			equal(t, got, want)
		}
	})
}

func both(x, y map[int]uint32) map[int]uint32 {
	m := maps.Clone(x)
	if m == nil {
		m = map[int]uint32{}
	}
	maps.Copy(m, y)
	return m
}
