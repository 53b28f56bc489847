// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestAdmissibleBoost_podLevelLimitIsUsedUp_takesNoCPUFromOthers(t *testing.T) {
	for name, c := range map[string]struct {
		level       cluster.PodResources
		advice      []cluster.Advice
		wantApp     int64
		wantSidecar int64
		refused     bool
	}{
		"room for a part of the boost": {
			level:  cluster.PodResources{Limits: cpu(1000)},
			advice: []cluster.Advice{exactly("app", cpu(300)), exactly("sidecar", cpu(400))}, wantApp: 600, wantSidecar: 400,
		},
		"room for the whole boost": {
			level:  cluster.PodResources{Limits: cpu(2000)},
			advice: []cluster.Advice{exactly("app", cpu(300)), exactly("sidecar", cpu(400))}, wantApp: 900, wantSidecar: 400,
		},
		"no room": {
			level:  cluster.PodResources{Limits: cpu(700)},
			advice: []cluster.Advice{exactly("app", cpu(300)), exactly("sidecar", cpu(400))}, refused: true,
		},
		"no pod-level resources": {
			advice: []cluster.Advice{exactly("app", cpu(300)), exactly("sidecar", cpu(400))}, wantApp: 900, wantSidecar: 400,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := recommend(c.advice...)
			a.Policies = []cluster.ContainerPolicy{
				{Container: "app", RequestsOnly: true, Boost: &cluster.Boost{Factor: 3}}, {Container: "sidecar", RequestsOnly: true},
			}
			p := podOf(container("app", cpu(300), cluster.Resources{}), container("sidecar", cpu(400), cluster.Resources{}))
			if c.level != (cluster.PodResources{}) {
				p.PodLevel = &c.level
			}
			fits := Fit(a, Limits{}, p)
			b := AdmissibleBoost(a, Limits{}, p, fits, 0)
			if b.Refusal.Refused() != c.refused {
				t.Fatalf("got refusal %s, want one: %t", b.Refusal, c.refused)
			}
			if c.refused {
				return
			}
			app, sidecar := b.Fits[0].Requests.CPU, b.Fits[1].Requests.CPU
			if sidecar != c.wantSidecar || app > c.wantApp || app < c.wantApp-2 {
				t.Errorf("app has %dm and the sidecar %dm, want %dm and %dm", app, sidecar, c.wantApp, c.wantSidecar)
			}
			if admissible.Refused(Limits{}, p, b.Fits).Refused() {
				t.Errorf("the API server would refuse %+v", b.Fits)
			}
		})
	}
}

// Whatever the pod, a boost takes no CPU from a container.
func TestAdmissibleBoost_randomPods_noContainerHasLess(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	limited := 0
	for range 3000 {
		var cs []cluster.Container
		var advised []cluster.Advice
		total := int64(0)
		for _, name := range []string{"app", "sidecar", "proxy"}[:1+rnd.IntN(3)] {
			request, limit := cpu(50+rnd.Int64N(1000)), cluster.Resources{}
			if rnd.IntN(3) == 0 {
				limit = cpu(request.CPU + rnd.Int64N(500))
			}
			total += request.CPU
			cs = append(cs, container(name, request, limit))
			if rnd.IntN(4) > 0 {
				advised = append(advised, exactly(name, cpu(50+rnd.Int64N(1000))))
			}
		}
		p := podOf(cs...)
		p.PodLevel = &cluster.PodResources{Limits: cpu(total + rnd.Int64N(2000))}
		if rnd.IntN(2) == 0 {
			p.PodLevel.Requests = cpu(total)
		}
		a := recommend(advised...)
		a.Boost = &cluster.Boost{Factor: int32(1 + rnd.IntN(5))}
		a.Policies = []cluster.ContainerPolicy{
			{Container: "app", RequestsOnly: rnd.IntN(2) == 0}, {Container: "sidecar", RequestsOnly: true, Off: rnd.IntN(3) == 0}, {Container: "proxy", RequestsOnly: true},
		}
		fits := Fit(a, Limits{}, p)
		before := slices.Clone(fits)
		b := AdmissibleBoost(a, Limits{}, p, fits, 0)
		if !slices.EqualFunc(before, fits, func(x, y Fitted) bool { return x.Requests == y.Requests && x.Limits == y.Limits }) {
			t.Fatal("the argument changed")
		}
		if b.Refusal.Refused() {
			limited++
			continue
		}
		if lowersCPU(p, fits, b.Fits) {
			t.Fatalf("level %+v, containers %+v: %+v becomes %+v", p.PodLevel, cs, fits, b.Fits)
		}
	}
	if limited == 0 || limited > 2000 {
		t.Errorf("%d of 3000 boosts were refused", limited)
	}
}

func TestAdmissibleBoost_factorWithoutRequest_isReported(t *testing.T) {
	a := recommend(exactly("app", cpu(300)))
	a.Boost = &cluster.Boost{Factor: 3}
	p := podOf(container("app", cpu(300), cluster.Resources{}), container("sidecar", cluster.Resources{}, cluster.Resources{}))
	b := AdmissibleBoost(a, Limits{}, p, Fit(a, Limits{}, p), 0)
	if !slices.Equal(b.NoBase, []string{"sidecar"}) || len(b.Originals) != 1 || b.Fits[0].Requests.CPU != 900 {
		t.Errorf("got %+v", b)
	}
	want := "Startup boost NOT applied by vpa to container sidecar: a factor needs a CPU request or a recommendation"
	a.Name = "vpa"
	if got := WithoutBoost(a, "", b.NoBase); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The maximum of a boosted request may be below the request without a boost. The boost then lowers it, as in upstream, and is not refused.
func TestAdmissibleBoost_maximumIsBelowTheRequest_isTheMaximum(t *testing.T) {
	p := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 1<<20)}}}
	a := &cluster.Autoscaler{Boost: &cluster.Boost{Factor: 1}, Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(100, 1<<20), Target: cluster.Amounts(100, 1<<20), Upper: cluster.Amounts(100, 1<<20)},
	}}}
	b := AdmissibleBoost(a, Limits{}, p, Fit(a, Limits{}, p), 1)
	if b.Refusal.Refused() || len(b.Fits) != 1 || b.Fits[0].Requests.CPU != 1 {
		t.Errorf("refusal %s, sizes %+v; want 1m and no refusal", b.Refusal, b.Fits)
	}
}

// lowersCPU reports whether a container has less CPU with a boost than without it. A millicore less results from rounding.
func lowersCPU(p *cluster.Pod, without, boosted []Fitted) bool {
	for i := range p.Containers {
		before, limitBefore := admissible.SizeOf(&p.Containers[i], without)
		after, limitAfter := admissible.SizeOf(&p.Containers[i], boosted)
		if after.CPU < before.CPU-1 || limitAfter.Has.Has(cluster.CPU) && limitAfter.CPU < limitBefore.CPU-1 {
			return true
		}
	}
	return false
}
