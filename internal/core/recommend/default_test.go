// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

const mib = 1 << 20

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cart = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	vpa  = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: cart}
)

func podOf(w cluster.Workload, name string, containers ...string) *cluster.Pod {
	p := &cluster.Pod{Key: cluster.Key{Namespace: w.Namespace, Name: name}, UID: "uid-" + name, Top: w, Phase: cluster.Running}
	for _, c := range containers {
		p.Containers = append(p.Containers, cluster.Container{Name: c})
	}
	return p
}

// steady returns the history of a container with constant usage for some minutes.
func steady(minutes int, cores, bytes float64, has cluster.Set) *usage.Store {
	b := usage.NewStore(usage.DefaultConfig())
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	for m := range minutes {
		b.Observe(usage.Sample{Pod: p.Key, Container: "app", At: noon.Add(time.Duration(m) * time.Minute), CPU: cores, Memory: bytes, Has: has})
	}
	return b
}

// The numbers of the default profile are upstream's.
func TestDefault_upstreamsCases_giveUpstreamsNumbers(t *testing.T) {
	const most = 100_000_000_000_000
	both := cluster.Both
	tests := map[string]struct {
		minutes              int
		cores, bytes         float64
		has                  cluster.Set
		lower, target, upper cluster.Resources
	}{
		"a week at 300m and 200Mi": {
			minutes: 7*24*60 + 1, cores: 0.3, bytes: 200 * mib, has: both,
			lower:  cluster.Amounts(349, 262144000),
			target: cluster.Amounts(350, 262144000), // 350m, 262144k
			upper:  cluster.Amounts(400, 283603977),
		},
		"12 hours: upper bound 3 times": {
			minutes: 12*60 + 1, cores: 0.3, bytes: 600 * mib, has: both,
			lower:  cluster.Amounts(348, 760999703),
			target: cluster.Amounts(350, 764046746),
			upper:  cluster.Amounts(1050, 2292140238),
		},
		"24 hours: upper bound twice": {
			minutes: 24*60 + 1, cores: 0.3, bytes: 600 * mib, has: both,
			lower:  cluster.Amounts(349, 762520941),
			target: cluster.Amounts(350, 764046746),
			upper:  cluster.Amounts(700, 1528093492),
		},
		"one sample": {
			minutes: 1, cores: 0.3, bytes: 600 * mib, has: both,
			lower:  cluster.Amounts(25, 262144000),
			target: cluster.Amounts(350, 764046746),
			upper:  cluster.Amounts(most, most),
		},
		"idle": {
			minutes: 7*24*60 + 1, cores: 0, bytes: mib, has: both,
			lower:  cluster.Amounts(25, 262144000),
			target: cluster.Amounts(25, 262144000),
			upper:  cluster.Amounts(25, 262144000),
		},
		"more than the histograms hold": {
			minutes: 7*24*60 + 1, cores: 5000, bytes: 5e13, has: both,
			lower:  cluster.Amounts(1173939, 1173940384742),
			target: cluster.Amounts(1174275, 1174275820239),
			upper:  cluster.Amounts(1342028, 1342029508844),
		},
		"no samples of memory (W-01)": {
			minutes: 24*60 + 1, cores: 0.3, has: cluster.Of(cluster.CPU),
			lower:  cluster.Amounts(349, 0).Unset(cluster.Memory),
			target: cluster.Amounts(350, 0).Unset(cluster.Memory),
			upper:  cluster.Amounts(700, 0).Unset(cluster.Memory),
		},
		"no samples of CPU (W-01, W-06)": {
			minutes: 24*60 + 1, bytes: 600 * mib, has: cluster.Of(cluster.Memory),
			lower:  cluster.Amounts(0, 762520941).Unset(cluster.CPU),
			target: cluster.Amounts(0, 764046746).Unset(cluster.CPU),
			upper:  cluster.Amounts(0, 1528093492).Unset(cluster.CPU),
		},
		"no samples at all (W-01)": {has: both},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := steady(tt.minutes, tt.cores, tt.bytes, tt.has)
			p := DefaultParams()
			got := Default(p).Estimate(b.Series(cart, "app"), p.Floor(1), noon, nil)
			want := cluster.Estimate{Lower: tt.lower, Target: tt.target, Upper: tt.upper}
			if got != want {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDefault_moreHistory_narrowsTheBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		minutes      int
		lower, upper float64 // factors
	}{
		"5 minutes":  {5, 0.6, 289},
		"30 minutes": {30, 0.91, 49},
		"12 hours":   {12 * 60, 0.996, 3},
		"24 hours":   {24 * 60, 0.998, 2},
		"a week":     {7 * 24 * 60, 0.9997, 1.143},
	} {
		t.Run(name, func(t *testing.T) {
			conf := confidence(usage.Span{First: noon, Last: noon.Add(time.Duration(tt.minutes) * time.Minute), Count: tt.minutes}, 24*time.Hour)
			if lower := math.Pow(1+0.001/conf, -2); math.Abs(lower-tt.lower) > 0.01 {
				t.Errorf("lower bound is multiplied by %v, want %v", lower, tt.lower)
			}
			if upper := 1 + 1/conf; math.Abs(upper/tt.upper-1) > 0.01 {
				t.Errorf("upper bound is multiplied by %v, want %v", upper, tt.upper)
			}
		})
	}
	sparse := confidence(usage.Span{First: noon, Last: noon.AddDate(0, 0, 8), Count: 8 * 24}, 24*time.Hour)
	if want := 8 * 24. / 1440; sparse != want {
		t.Errorf("eight days of hourly samples give a confidence of %v, want %v", sparse, want)
	}
}

func TestFloor_severalContainers_isSplit(t *testing.T) {
	for n, want := range map[int]cluster.Resources{
		0: cluster.Amounts(25, 262144000),
		1: cluster.Amounts(25, 262144000),
		2: cluster.Amounts(12, 131072000),
		3: cluster.Amounts(8, 87381333),
		7: cluster.Amounts(3, 37449142),
	} {
		if got := DefaultParams().Floor(n); got != want {
			t.Errorf("each of %d containers gets at least %v, want %v", n, got, want)
		}
	}
}

func TestDefault_anyParameters_keepBoundsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1)
		p := Params{
			Margin:           rapid.SampledFrom([]float64{0, 0.15, 3, -0.5, math.NaN(), math.Inf(1)}).Draw(t, "margin"),
			CPU:              Percentiles{share.Draw(t, "l"), share.Draw(t, "t"), share.Draw(t, "u")},
			Memory:           Percentiles{share.Draw(t, "l"), share.Draw(t, "t"), share.Draw(t, "u")},
			CPUConfidence:    time.Duration(rapid.Int64Range(-1, 1e15).Draw(t, "confidence")),
			MemoryConfidence: time.Duration(rapid.SampledFrom([]int64{0, 1, math.MaxInt64}).Draw(t, "confidence")),
			FloorMillicores:  rapid.SampledFrom([]float64{0, 25, 1e9, -1, math.NaN()}).Draw(t, "floor"),
			FloorMegabytes:   rapid.SampledFrom([]float64{0, 250, 1e12, math.Inf(1)}).Draw(t, "floor"),
			RoundMillicores:  rapid.Int64Range(-1, 1000).Draw(t, "round"),
			RoundBytes:       rapid.Int64Range(-1, 1<<30).Draw(t, "round"),
		}
		b := usage.NewStore(usage.DefaultConfig())
		pod := podOf(cart, "cart-1", "app", "proxy")
		b.Track(pod)
		at := noon
		for range rapid.IntRange(0, 50).Draw(t, "samples") {
			at = at.Add(time.Duration(rapid.Int64Range(-3600, 24*3600).Draw(t, "s")) * time.Second)
			b.Observe(usage.Sample{
				Pod: pod.Key, Container: rapid.SampledFrom([]string{"app", "proxy"}).Draw(t, "container"), At: at,
				CPU: rapid.Float64().Draw(t, "cores"), Memory: rapid.Float64Range(-1, 1e15).Draw(t, "bytes"),
				Has: cluster.Set(rapid.IntRange(0, 3).Draw(t, "has")),
			})
		}
		for _, a := range Workload(p, Default(p), b, vpa, cart, noon) {
			for _, r := range cluster.All {
				l, u, x := a.Lower.Amount(r), a.Upper.Amount(r), a.Target.Amount(r)
				if !(0 <= l && l <= x && x <= u) || a.Lower.Has != a.Target.Has || a.Upper.Has != a.Target.Has {
					t.Fatalf("%v of %s: %d, %d, %d", r, a.Container, l, x, u)
				}
			}
		}
	})
}

func TestWorkload_policies_selectAndRoundTheAdvice(t *testing.T) {
	on := func(b *usage.Store, pod *cluster.Pod, container string, cores, bytes float64) {
		for m := range 24*60 + 1 {
			b.Observe(usage.Sample{Pod: pod.Key, Container: container, At: noon.Add(time.Duration(m) * time.Minute), CPU: cores, Memory: bytes, Has: cluster.Both})
		}
	}
	tests := map[string]struct {
		policies []cluster.ContainerPolicy
		params   func(*Params)
		want     map[string]cluster.Resources // targets
	}{
		"sorted, with the floor split over three": {
			want: map[string]cluster.Resources{"app": cluster.Amounts(350, 248153480), "log": cluster.Amounts(11, 87381333), "proxy": cluster.Amounts(11, 87381333)},
		},
		"one is off and has no share in the floor": {
			policies: []cluster.ContainerPolicy{{Container: "log", Off: true}},
			want:     map[string]cluster.Resources{"app": cluster.Amounts(350, 248153480), "proxy": cluster.Amounts(12, 131072000)},
		},
		"all but one are off": {
			policies: []cluster.ContainerPolicy{{Container: "*", Off: true}, {Container: "app"}},
			want:     map[string]cluster.Resources{"app": cluster.Amounts(350, 262144000)},
		},
		"only CPU is controlled": {
			policies: []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}},
			want: map[string]cluster.Resources{
				"app": cluster.Resources{}.Set(cluster.CPU, 350), "log": cluster.Resources{}.Set(cluster.CPU, 11), "proxy": cluster.Resources{}.Set(cluster.CPU, 11),
			},
		},
		"one has nothing controlled": {
			policies: []cluster.ContainerPolicy{{Container: "log", ControlsSet: true}},
			want:     map[string]cluster.Resources{"app": cluster.Amounts(350, 248153480), "proxy": cluster.Amounts(11, 87381333)},
		},
		"rounded up": {
			params: func(p *Params) { p.RoundMillicores, p.RoundBytes = 50, 64*mib },
			want:   map[string]cluster.Resources{"app": cluster.Amounts(350, 256*mib), "log": cluster.Amounts(50, 128*mib), "proxy": cluster.Amounts(50, 128*mib)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := usage.NewStore(usage.DefaultConfig())
			pod := podOf(cart, "cart-1", "proxy", "app", "log", "init")
			pod.Containers[3].Role = cluster.Init
			b.Track(pod)
			on(b, pod, "app", 0.3, 200*mib)
			on(b, pod, "proxy", 0, 10*mib)
			on(b, pod, "log", 0, 10*mib)
			p := DefaultParams()
			if tt.params != nil {
				tt.params(&p)
			}
			a := *vpa
			a.Policies = tt.policies
			got := Workload(p, Default(p), b, &a, cart, noon)
			for i, x := range got {
				if i > 0 && got[i-1].Container >= x.Container {
					t.Errorf("%s stands behind %s", x.Container, got[i-1].Container)
				}
				if want := tt.want[x.Container]; x.Target != want {
					t.Errorf("%s: target is %v, want %v", x.Container, x.Target, want)
				}
				if x.Uncapped != x.Target {
					t.Errorf("%s: uncapped target is %v, target %v", x.Container, x.Uncapped, x.Target)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d containers have advice, want %d", len(got), len(tt.want))
			}
		})
	}
}

// W-01: upstream recommends the floor for containers without samples.
func TestWorkload_withoutSamples_returnsNoAdvice(t *testing.T) {
	b := usage.NewStore(usage.DefaultConfig())
	p := DefaultParams()
	if got := Workload(p, Default(p), b, vpa, cart, noon); got != nil {
		t.Errorf("a workload never seen gets %v", got)
	}
	b.Track(podOf(cart, "cart-1", "app"))
	if got := Workload(p, Default(p), b, vpa, cart, noon); len(got) != 0 {
		t.Errorf("a container without samples gets %v", got)
	}
}

// W-10: removed containers have no share of the floor.
func TestWorkload_removedContainer_hasNoShareOfTheFloor(t *testing.T) {
	b := usage.NewStore(usage.DefaultConfig())
	before, after := podOf(cart, "cart-1", "app", "old"), podOf(cart, "cart-2", "app")
	b.Track(before)
	b.Track(after)
	for _, c := range []string{"app", "old"} {
		b.Observe(usage.Sample{Pod: before.Key, Container: c, At: noon, CPU: 0, Memory: mib, Has: cluster.Both})
	}
	b.Forget(before.Key)
	p := DefaultParams()
	got := Workload(p, Default(p), b, vpa, cart, noon)
	if len(got) != 1 || got[0].Target != cluster.Amounts(25, 262144000) {
		t.Errorf("advice is %v", got)
	}
}

// Budget: 3 µs for one container with 5 pods.
func BenchmarkWorkload(b *testing.B) {
	for _, containers := range []int{1, 5} {
		b.Run(fmt.Sprintf("containers=%d", containers), func(b *testing.B) {
			book := usage.NewStore(usage.DefaultConfig())
			names := []string{"app", "log", "mesh", "proxy", "vault"}[:containers]
			for i := range 5 {
				pod := podOf(cart, fmt.Sprint("cart-", i), names...)
				book.Track(pod)
				for m := range 24 * 60 {
					for _, c := range names {
						book.Observe(usage.Sample{
							Pod: pod.Key, Container: c, At: noon.Add(time.Duration(m) * time.Minute),
							CPU: 0.1 + 0.001*float64(m%300), Memory: 200*mib + float64(m)*1e5, Has: cluster.Both,
						})
					}
				}
			}
			p := DefaultParams()
			est := Default(p)
			b.ReportAllocs()
			for b.Loop() {
				Workload(p, est, book, vpa, cart, noon)
			}
		})
	}
}
