// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

// learnt adds a learnt boost of 250 % for two minutes to the recommendation for the container app.
func learnt(a *cluster.Autoscaler) *cluster.Autoscaler {
	a.Learning = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
	for i := range a.Advice {
		if a.Advice[i].Container == "app" {
			a.Advice[i].Learnt = cluster.LearntBoost{Percent: 250, Starts: 5, Duration: 2 * time.Minute}
		}
	}
	return a
}

func TestBoost_learnt(t *testing.T) {
	small := &cluster.Boost{Factor: 1}
	for name, c := range map[string]struct {
		change     func(a *cluster.Autoscaler)
		limits     cluster.Resources
		most       int64
		want       int64 // CPU request of app; 200 without a boost
		wantLimits cluster.Resources
	}{
		"multiplies the recommendation": {want: 500},
		"the limit follows":             {limits: cpu(200), want: 500, wantLimits: cpu(1000)},
		"is not above the flag":         {most: 450, want: 450},
		"is not above maxAllowed": {
			change: func(a *cluster.Autoscaler) {
				a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cpu(350)}}
			}, want: 350,
		},
		"is not above the setting":   {change: func(a *cluster.Autoscaler) { a.Learning.MaxPercent = 150 }, want: 300},
		"is not enabled":             {change: func(a *cluster.Autoscaler) { a.Learning.On = false }, want: 200},
		"a configured boost wins":    {change: func(a *cluster.Autoscaler) { a.Boost = &cluster.Boost{Factor: 2} }, want: 400},
		"also one that adds nothing": {change: func(a *cluster.Autoscaler) { a.Boost = small }, want: 200},
		"that of the policy, too": {
			change: func(a *cluster.Autoscaler) { a.Policies = []cluster.ContainerPolicy{{Container: "app", Boost: small}} }, want: 200,
		},
		"limits are kept": {
			change: func(a *cluster.Autoscaler) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true}}
			}, limits: cpu(400), want: 399,
		},
		"CPU is not controlled": {
			change: func(a *cluster.Autoscaler) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: cluster.Set(0).With(cluster.Memory)}}
			}, want: 100,
		},
		"an HPA scales by CPU": {
			change: func(a *cluster.Autoscaler) {
				a.Horizontal = []*cluster.HorizontalAutoscaler{{Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}}}
			}, want: 100,
		},
		"an HPA scales by CPU, and its scale point is preserved": {
			change: func(a *cluster.Autoscaler) {
				a.PreserveScalePoint = true
				a.Horizontal = []*cluster.HorizontalAutoscaler{{
					Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}},
					Points:      []cluster.ScalePoint{{Resource: cluster.CPU, Base: 200, Percent: 80, Set: 80}},
				}}
			}, want: 200,
		},
		"whole cores": {change: func(a *cluster.Autoscaler) { a.IntegerCPU = []string{"app"} }, limits: cpu(100), want: 200, wantLimits: cpu(200)},
	} {
		t.Run(name, func(t *testing.T) {
			a := learnt(recommend(exactly("app", of(200, mi))))
			if c.change != nil {
				c.change(a)
			}
			p := podOf(container("app", cpu(100), c.limits))
			b := AdmissibleBoost(a, Limits{}, p, Fit(a, Limits{}, p), c.most)
			requests, limits := admissible.SizeOf(&p.Containers[0], b.Fits)
			if requests.CPU != c.want || c.wantLimits.Has != 0 && limits.CPU != c.wantLimits.CPU || len(b.NoBase) > 0 || b.Refusal.Refused() {
				t.Errorf("got %+v limits %v, want %dm", b, limits, c.want)
			}
			if c.want > 200 && len(b.Originals) != 1 {
				t.Errorf("originals %+v", b.Originals)
			}
		})
	}
}

func TestBoost_learntInModeOff_hasNoEffect(t *testing.T) {
	a := learnt(recommend(exactly("app", of(200, mi))))
	a.Mode = cluster.Off
	p := podOf(container("app", cpu(100), cluster.Resources{}))
	if b := AdmissibleBoost(a, Limits{}, p, nil, 0); len(b.Fits) > 0 || a.BoostsNewPods() || a.ChangesPods(true) {
		t.Errorf("boost %+v, boosts new pods %v, changes pods %v", b, a.BoostsNewPods(), a.ChangesPods(true))
	}
}

func TestAdmissibleBoost_learntAndNoNodeIsLargeEnough_isLimited(t *testing.T) {
	for name, c := range map[string]struct{ node, want int64 }{
		"a large node": {1000, 500}, "a node for a part": {400, 400}, "a node for no more": {200, 200}, "a node for less": {150, 500},
	} {
		t.Run(name, func(t *testing.T) {
			a := learnt(recommend(exactly("app", of(200, mi))))
			p := podOf(container("app", cpu(100), cluster.Resources{}))
			fits := Fit(a, Limits{}, p)
			l := Limits{Nodes: &fleet.Sizes{Largest: []cluster.Resources{of(c.node, 1<<40)}}}
			b := AdmissibleBoost(a, l, p, fits, 0)
			requests, _ := admissible.SizeOf(&p.Containers[0], b.Fits)
			if b.Refusal.Refused() || requests.CPU > c.want || requests.CPU < c.want-1 {
				t.Errorf("got %dm, refused %v, want %dm", requests.CPU, b.Refusal, c.want)
			}
			if (len(b.Originals) == 1) != (requests.CPU > 200) {
				t.Errorf("originals %+v with a request of %dm", b.Originals, requests.CPU)
			}
		})
	}
}

func TestUnboost_learnt_endsAfterItsDuration(t *testing.T) {
	ready := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	a := learnt(recommend(exactly("app", of(200, mi))))
	c := container("app", of(500, mi), cluster.Resources{})
	c.Boosted = &cluster.Applied{Requests: of(100, 2*mi)}
	p := podOf(c)
	p.Ready, p.ReadySince = true, ready
	fits := Fit(a, Limits{}, p)
	if over, until := Unboost(a, p, fits, ready.Add(2*time.Minute)); len(over) != 0 || !until.Equal(ready.Add(2*time.Minute)) {
		t.Errorf("before its end: over %v until %v", over, until)
	}
	if over, _ := Unboost(a, p, fits, ready.Add(2*time.Minute+1)); len(over) != 1 || over[0].Requests != of(200, mi) {
		t.Errorf("after its end: %v", over)
	}
	a.Learning.On = false
	if over, _ := Unboost(a, p, fits, ready); len(over) != 1 {
		t.Errorf("the boost does not end when learning is switched off: %v", over)
	}
}

// Whatever the pod, a learnt boost takes no CPU from a container, changes nothing but CPU, gives a pod that the API server admits, and ends with
// the size that the webhook and the updater compute without it.
func TestBoost_learntOnRandomPods_endsWithTheRecommendation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	ready := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	boosts := 0
	for range 3000 {
		a, p, l := randomLearnt(rnd)
		fits := Fit(a, l, p)
		b := AdmissibleBoost(a, l, p, slices.Clone(fits), int64(rnd.IntN(2)*900))
		if b.Refusal.Refused() || len(b.NoBase) > 0 {
			t.Fatalf("refused %v, no base %v", b.Refusal, b.NoBase)
		}
		if lowersCPU(p, fits, b.Fits) || admissible.Refused(l, p, fits).Refused() != admissible.Refused(l, p, b.Fits).Refused() {
			t.Fatalf("containers %+v: %+v becomes %+v", p.Containers, fits, b.Fits)
		}
		created := *p
		created.Containers = slices.Clone(p.Containers)
		created.Ready, created.ReadySince = true, ready
		for i := range created.Containers {
			c := &created.Containers[i]
			c.Requests, c.Limits = admissible.SizeOf(c, b.Fits)
			for _, o := range b.Originals {
				if o.Container == c.Name {
					c.Boosted = &cluster.Applied{Requests: o.Requests, Limits: o.Limits}
					boosts++
				}
			}
		}
		over, _ := Unboost(a, &created, Fit(a, l, &created), ready.Add(cluster.MaxBoostDuration+1))
		if len(over) != len(b.Originals) {
			t.Fatalf("%d boosts, %d of them end", len(b.Originals), len(over))
		}
		for i := range p.Containers {
			want, _ := admissible.SizeOf(&p.Containers[i], fits)
			got, _ := admissible.SizeOf(&created.Containers[i], over)
			boosted := created.Containers[i].Requests
			if got.CPU != want.CPU || boosted.Memory != want.Memory {
				t.Fatalf("%s ends with %v after %v, want %v", p.Containers[i].Name, got, boosted, want)
			}
		}
	}
	if boosts < 1000 {
		t.Errorf("only %d boosts", boosts)
	}
}

// randomLearnt returns a VPA with learnt boosts, a pod, and a node that may be too small for the boost.
func randomLearnt(rnd *rand.Rand) (*cluster.Autoscaler, *cluster.Pod, Limits) {
	var cs []cluster.Container
	var advised []cluster.Advice
	for _, name := range []string{"app", "sidecar", "proxy"}[:1+rnd.IntN(3)] {
		request, limit := of(50+rnd.Int64N(1000), mi), cluster.Resources{}
		if rnd.IntN(3) == 0 {
			limit = cpu(request.CPU * (1 + rnd.Int64N(3)))
		}
		cs = append(cs, container(name, request, limit))
		if rnd.IntN(4) > 0 {
			x := exactly(name, of(50+rnd.Int64N(1000), 2*mi))
			x.Learnt = cluster.LearntBoost{Percent: int32(rnd.IntN(1200)), Starts: 5, Duration: time.Duration(rnd.IntN(16)) * time.Minute}
			advised = append(advised, x)
		}
	}
	a := recommend(advised...)
	a.Learning = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
	a.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(rnd.Int64N(2000) + 50)}, {Container: "proxy", Off: rnd.IntN(3) == 0}}
	var l Limits
	if rnd.IntN(2) == 0 {
		l.Nodes = &fleet.Sizes{Largest: []cluster.Resources{of(500+rnd.Int64N(4000), 1<<40)}}
	}
	return a, podOf(cs...), l
}

func TestAdmissibleBoost_guardForJVMs_keepsTheBoostOutOfTheRangesThatJVMsMisread(t *testing.T) {
	for name, c := range map[string]struct {
		target, want int64
		change       func(a *cluster.Autoscaler)
	}{
		"one core":              {target: 400, want: 988},
		"the linear conversion": {target: 1020, want: 2537},
		"above a range":         {target: 404, want: 1010},
		"no guard":              {target: 400, want: 1000, change: func(a *cluster.Autoscaler) { a.Guards = cluster.RuntimeGuards{} }},
		"a configured boost":    {target: 500, want: 988, change: func(a *cluster.Autoscaler) { a.Boost = &cluster.Boost{Factor: 2} }},
	} {
		t.Run(name, func(t *testing.T) {
			a := learnt(recommend(exactly("app", of(c.target, mi))))
			a.Guards = allGuards
			if c.change != nil {
				c.change(a)
			}
			p := jvmPod(container("app", cpu(100), cluster.Resources{}), cluster.Runtime{})
			b := AdmissibleBoost(a, Limits{}, p, Fit(a, Limits{}, p), 0)
			if requests, _ := admissible.SizeOf(&p.Containers[0], b.Fits); requests.CPU != c.want || b.Refusal.Refused() {
				t.Errorf("got %dm, refused %v, want %dm", requests.CPU, b.Refusal, c.want)
			}
		})
	}
}
