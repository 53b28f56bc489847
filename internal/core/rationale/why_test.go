// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	mib       = 1 << 20
	gib       = 1 << 30
	dayLength = 24 * time.Hour
)

var cart = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}

// A scene is a workload with one container, whose usage is observed every five minutes.
type scene struct {
	Sizing
	store *usage.Store
}

func newScene(profile recommend.Profile, now time.Time) *scene {
	s := &scene{store: usage.NewStore(usage.DefaultConfig())}
	if profile.Extend != nil {
		s.store.Extend(cart, profile.Extend)
	}
	s.Profile = profile
	s.Profiles = recommend.Builtins()
	s.Now = now
	s.Pod = &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "cart-7d9f-m4t"}, UID: "1", Top: cart, Phase: cluster.Running,
		Containers: []cluster.Container{{
			Name: "app", Requests: cluster.Amounts(500, gib), Limits: cluster.Resources{}.Set(cluster.Memory, 1536*mib),
		}},
	}
	s.Autoscaler = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: cart, Mode: cluster.InPlaceOrRecreate}
	s.store.Track(s.Pod)
	return s
}

// use observes usage for a time.
func (s *scene) use(length time.Duration, amounts func(at time.Time) (cores, bytes float64)) {
	for end := s.Now.Add(length); s.Now.Before(end); s.Now = s.Now.Add(5 * time.Minute) {
		cores, bytes := amounts(s.Now)
		s.store.Tick(s.Now)
		s.store.Observe(usage.Sample{Pod: s.Pod.Key, Container: "app", At: s.Now, CPU: cores, Memory: bytes, Has: cluster.Both})
	}
	s.Histories = s.store.All(cart)
}

// cartScene is the scene of ux.md: Friday's peak of 1000Mi, 800Mi before it, spiky, 1000Mi in the week before.
func cartScene() *scene {
	params := recommend.Balanced()
	params.Memory.Margin = 0.13 // as after a long time of learning
	params.Memory.Step = 0
	params.Memory.Choose = false
	params.Memory.Plan.Gain = 0
	s := newScene(recommend.AdaptiveProfile("balanced", "", params), time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	peaks := map[string]float64{"2026-11-12": 1000, "2026-11-18": 800, "2026-11-21": 1000}
	s.use(14*dayLength, func(at time.Time) (float64, float64) {
		if mem := peaks[at.Format(time.DateOnly)]; mem > 0 && at.Hour() == 19 {
			return 0.5, mem * mib
		}
		return 0.2, 300 * mib
	})
	s.Autoscaler.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cluster.Resources{}.Set(cluster.Memory, 4*gib)}}
	s.Autoscaler.Horizontal = []*cluster.HorizontalAutoscaler{{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: cart,
		Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}},
	}}
	s.Limits = policy.Limits{
		Range: cluster.LimitRange{Container: cluster.Range{Max: cluster.Resources{}.Set(cluster.Memory, 8*gib)}},
		Nodes: &fleet.Sizes{Largest: []cluster.Resources{cluster.Amounts(8000, 32*gib)}},
	}
	s.Kills = map[string]int64{"app": gib}
	return s
}

// why returns the WHY of a scene.
func (s *scene) why() string {
	var out strings.Builder
	for _, w := range WhyOf(&s.Sizing) {
		fmt.Fprintf(&out, "WHY %s\n", w.Title())
		for i, line := range w.Lines() {
			spark := ""
			if i == 0 {
				spark = Spark(w.Days)
			}
			fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("   %-9s %-36s %-30s %s", line.Figure, line.What, line.Note, spark), " "))
		}
	}
	return out.String()
}

// whatIf returns the WHAT IF of a scene.
func (s *scene) whatIf() string {
	var out strings.Builder
	fmt.Fprintln(&out, "WHAT IF")
	changes := UsualIfs(&s.Sizing)
	for _, text := range []string{"decide=anew", "hpa=ignore", "controlledValues=RequestsOnly", "maxAllowed.memory=900Mi", "profile=autopilot", "without=2026-11-18"} {
		change, err := ParseIf(text)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
		changes = append(changes, change)
	}
	for _, c := range WhatIf(&s.Sizing, changes) {
		fmt.Fprintf(&out, "   %-6s %s\n", c.Resource, c.Text())
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run go test -update and review the difference. Got:\n%s", file, got)
	}
}

func TestWhy_exampleCart_matchesGoldenFile(t *testing.T) {
	golden(t, "why_cart.txt", cartScene().why()+cartScene().whatIf())
}

func TestWhy_criticalityAndShareOfANode_areNamed(t *testing.T) {
	params := recommend.Busiest()
	params.MostOfNodeBase = cluster.OfCapacity
	params.PriorityClasses = []criticality.ClassFactor{{Class: "gold", Factor: 2}}
	s := newScene(recommend.BusyHoursProfile("mine", "", params), time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	s.use(2*dayLength, func(time.Time) (float64, float64) { return 0.6, 300 * mib })
	profile := s.Profile
	for name, declared := range map[string]criticality.Declared{"label": {Label: 1.5}, "class": {Classes: []string{"gold"}}, "profile": {Classes: []string{""}}} {
		s.Profile = profile.For(declared, fleet.NodeSizes{Allocatable: 1800, Capacity: 2000})
		lines, _, _ := strings.Cut(s.why(), "of memory")
		want := map[string]string{
			"label":   "× 1.500   criticality of the pods              label podfit.dev/criticality",
			"class":   "× 2.000   criticality of the pods              PriorityClass gold",
			"profile": "× 1.300   factor of the profile\n",
		}[name]
		if !strings.Contains(lines, want) {
			t.Errorf("%s: %q is not in\n%s", name, want, lines)
		}
		const share = "→ 500m    a pod may have 500m, in proportion   25 % of the CPU capacity (2) of the smallest node\n   = 500m"
		if !strings.Contains(lines, share) {
			t.Errorf("%s: %q is not in\n%s", name, share, lines)
		}
	}
}

func TestWhy_everyProfile_matchesGoldenFile(t *testing.T) {
	var out strings.Builder
	for _, p := range recommend.BacktestProfiles() {
		p = p.For(criticality.Declared{}, fleet.NodeSizes{Memory: 64 * gib})
		s := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
		s.use(14*dayLength, func(at time.Time) (float64, float64) {
			if at.Hour() >= 9 && at.Hour() < 17 {
				return 0.6, 700 * mib
			}
			return 0.1, 300 * mib
		})
		fmt.Fprintf(&out, "profile %s\n%s\n", p.Name, s.why())
	}
	golden(t, "why_profiles.txt", out.String())
}

// A peak that the free part of the node cannot hold raises the request. Two pods of the workload share that part.
func TestWhy_packedWithALargePeak_matchesGoldenFile(t *testing.T) {
	packed, _ := recommend.Builtin("packed")
	s := newScene(packed.For(criticality.Declared{}, fleet.NodeSizes{Memory: 16 * gib, Copies: 2}), time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	s.use(14*dayLength, func(at time.Time) (float64, float64) {
		if at.Day() == 10 && at.Hour() == 16 {
			return 1, 6 * gib
		}
		return 0.5, 2 * gib
	})
	golden(t, "why_packed.txt", s.why())
}

// The container gets its part of what the pod needs as a whole, below its target.
func TestWhy_podWithPodLevelRequests_wholeAndSumAreNamed(t *testing.T) {
	s := newScene(recommend.Builtins()[0], time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	s.Pod.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(2000, 2*gib)}
	s.Pod.Containers = append(s.Pod.Containers, cluster.Container{Name: "proxy"})
	s.Autoscaler.Advice = []cluster.Advice{
		{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(230, 500*mib)}, Shared: cluster.Amounts(130, 300*mib)},
		{Container: "proxy", Estimate: cluster.Estimate{Target: cluster.Amounts(230, 500*mib)}, Shared: cluster.Amounts(130, 300*mib)},
	}
	s.use(dayLength, func(time.Time) (float64, float64) { return 0.2, 300 * mib })
	why := s.why()
	if want := "the pod as a whole needs 260m, the sum of its containers would be 460m"; strings.Count(why, "the pod as a whole") != 1 || !strings.Contains(why, want) {
		t.Errorf("want %q once, because a memory limit follows the request, in\n%s", want, why)
	}
}
