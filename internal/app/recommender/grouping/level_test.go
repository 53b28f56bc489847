// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

const quarter = 15 * time.Minute

func three(int) int { return 3 }

// byUsage returns a Book and workloads whose pods are sized by how much they use.
func byUsage(workloads int, pods func(workload int) int) (*Book, []Workload) {
	catalog := sizing.NewCatalog(recommend.DefaultParams(), false)
	var all []Workload
	for i := range workloads {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint(i)}
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: w.Name}, Target: w, Mode: cluster.InPlace}
		a.Rules.RoleLabel = cluster.UsageLevel
		of := Workload{Autoscaler: a, Choice: catalog.Of(a)}
		for n := range pods(i) {
			of.Pods = append(of.Pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%d-%d", i, n)}, UID: fmt.Sprintf("%d-%d", i, n), Top: w,
				Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}})
		}
		all = append(all, of)
	}
	return New(usage.DefaultConfig(), 24*time.Hour, quarter), all
}

// measure adds usage from one time to another.
func measure(b *Book, all []Workload, from, to time.Duration, cpu func(workload, pod int, at time.Duration) float64) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for at := from; at < to; at += quarter {
		b.Configure(start.Add(at), all)
		b.Track(nil)
		for i, w := range all {
			for n, p := range w.Pods {
				b.Observe(&usage.Sample{Pod: p.Key, Container: "app", At: start.Add(at), CPU: cpu(i, n, at), Memory: 5e8, Has: cluster.Both})
			}
		}
	}
}

const day = 24 * time.Hour

// roles returns the roles of the pods of a workload.
func roles(b *Book, w Workload) (out []string) {
	for _, p := range w.Pods {
		out = append(out, b.roleOf(w.Autoscaler, p))
	}
	return out
}

// 1,000 workloads of 2 to 6 pods have equally distributed usage that varies from hour to hour and from day to day. The test shows something because
// workloads have roles if one of the pods uses three times what the others use.
func TestWatch_podsAreAlike_noRoles(t *testing.T) {
	for leads, workloads := range map[float64]int{1: 1000, 3: 50} {
		random := rand.New(rand.NewPCG(1, 2))
		b, all := byUsage(workloads, func(workload int) int { return 2 + workload%5 })
		hourly := map[[2]int]float64{}
		daily := map[[2]int]float64{}
		found := map[int]bool{}
		for d := range 7 {
			from := time.Duration(d) * day
			measure(b, all, from, from+day, func(workload, pod int, at time.Duration) float64 {
				key := [2]int{workload, pod}
				if at%day == 0 {
					daily[key] = math.Exp(random.NormFloat64() / 8)
				}
				if at%time.Hour == 0 {
					hourly[key] = math.Exp(random.NormFloat64() / 2)
				}
				cores := (0.1 + float64(workload%100)/50) * (1.2 + math.Sin(float64(at)/float64(4*time.Hour))) * daily[key] * hourly[key]
				if pod == 0 {
					cores *= leads
				}
				return cores
			})
			for i, w := range all {
				found[i] = found[i] || b.levels[w.Autoscaler.Target].clear >= clearDays
			}
		}
		groups := 0
		for _, has := range found {
			if has {
				groups++
			}
		}
		if leads == 1 && groups > 0 || leads > 1 && groups < workloads*8/10 {
			t.Errorf("%d of %d workloads have roles if one uses %g times what the others use", groups, workloads, leads)
		}
	}
}

// leads is usage of which one pod has three times that of the others.
func leads(leader int) func(int, int, time.Duration) float64 {
	return func(_, pod int, _ time.Duration) float64 {
		if pod == leader {
			return 0.9
		}
		return 0.3
	}
}

func TestWatch_onePodUsesMuch_rolesAfterThreeDays(t *testing.T) {
	b, all := byUsage(1, three)
	for days, want := range []string{"[  ]", "[  ]", "[  ]", "[busy quiet quiet]"} {
		measure(b, all, time.Duration(days)*day, time.Duration(days)*day+quarter, leads(0))
		if got := fmt.Sprint(roles(b, all[0])); got != want {
			t.Errorf("after %d days: %s, want %s", days, got, want)
		}
		measure(b, all, time.Duration(days)*day+quarter, time.Duration(days+1)*day, leads(0))
	}
	// A restart continues with the pods of the status.
	status := *all[0].Autoscaler
	status.Advice = adviceFor(1000)
	status.Advice[0].Groups = []cluster.GroupSize{{Role: cluster.Quiet, Target: cluster.Resources{}.Set(cluster.CPU, 350), Pods: b.levels[status.Target].listed()}}
	all[0].Autoscaler = &status
	b = New(usage.DefaultConfig(), day, quarter)
	measure(b, all, 4*day, 4*day+quarter, leads(0))
	if got := fmt.Sprint(roles(b, all[0])); got != "[busy quiet quiet]" {
		t.Errorf("after a restart: %s", got)
	}
	// A new pod has no role.
	p := *all[0].Pods[1]
	p.UID = "new"
	all[0].Pods[1] = &p
	measure(b, all, 4*day+quarter, 5*day, leads(0))
	if got := fmt.Sprint(roles(b, all[0])); got != "[busy  quiet]" {
		t.Errorf("with a new pod: %s", got)
	}
	measure(b, all, 5*day, 6*day+quarter, leads(0))
	if got := fmt.Sprint(roles(b, all[0])); got != "[busy quiet quiet]" {
		t.Errorf("when the new pod has been measured for a day: %s", got)
	}
	// Pods become alike.
	measure(b, all, 6*day+quarter, 8*day+quarter, leads(-1))
	if got := fmt.Sprint(roles(b, all[0])); got != "[busy quiet quiet]" {
		t.Errorf("alike for a day: %s", got)
	}
	if measure(b, all, 8*day+quarter, 10*day+quarter, leads(-1)); b.levels[status.Target].listed() != "" {
		t.Errorf("alike for three days: %s", roles(b, all[0]))
	}
}

func TestWatch_leaderChangesEachDay_noRoles(t *testing.T) {
	b, all := byUsage(1, three)
	for d := range 10 {
		measure(b, all, time.Duration(d)*day, time.Duration(d+1)*day, leads(d/2%3))
		if got := fmt.Sprint(roles(b, all[0])); got != "[  ]" {
			t.Fatalf("after %d days: %s", d, got)
		}
	}
}

func TestObserve_quietPodBecomesTheLeader_isBusyAfterTwoMeasurements(t *testing.T) {
	for limit, uses := range map[int64]float64{0: 0.9, 350: 0.35, 700: 0.65} {
		b, all := byUsage(1, three)
		a := all[0].Autoscaler
		a.Advice = adviceFor(1000)
		a.Advice[0].Groups = []cluster.GroupSize{{Role: cluster.Quiet, Target: cluster.Resources{}.Set(cluster.CPU, 350), Pods: "0-1,0-2"}}
		if limit > 0 {
			for _, p := range all[0].Pods {
				p.Containers[0].Limits = cluster.Amounts(limit, 0)
			}
		}
		next := func(_, pod int, _ time.Duration) float64 {
			if pod == 1 {
				return uses
			}
			return 0.3
		}
		measure(b, all, quarter, 4*quarter, leads(0))
		measure(b, all, 4*quarter, 5*quarter, next)
		if got := fmt.Sprint(roles(b, all[0])); got != "[busy quiet quiet]" {
			t.Errorf("limit %d, after one measurement: %s", limit, got)
		}
		measure(b, all, 5*quarter, 6*quarter, next)
		if got := fmt.Sprint(roles(b, all[0])); got != "[busy busy quiet]" || b.levels[a.Target].listed() != "0-2" {
			t.Errorf("limit %d, after two measurements: %s", limit, got)
		}
		measure(b, all, 23*time.Hour, day+quarter, leads(0)) // most of the day was not measured
		measure(b, all, day+quarter, 2*day+quarter, next)
		if got := fmt.Sprint(roles(b, all[0])); limit == 0 && got != "[quiet busy quiet]" {
			t.Errorf("limit %d, after a day: %s", limit, got)
		}
	}
}

func TestApply_rolesByUsage_onlyListedPodsAreSmall(t *testing.T) {
	b, all := byUsage(1, func(int) int { return 40 })
	measure(b, all, 0, 4*day+13*time.Hour, leads(0))
	s := &Sizing{Profile: all[0].Choice.Profile, Autoscaler: all[0].Autoscaler}
	got := b.Apply(s, adviceFor(100))
	if len(got[0].Groups) != 1 || got[0].Target.CPU < 900 || got[0].Groups[0].Target.CPU > 500 {
		t.Fatalf("%+v", got)
	}
	s.Autoscaler.Advice = got
	small := 0
	for i, p := range all[0].Pods {
		size := s.Autoscaler.For(p).Advice[0].Target.CPU
		if size < 500 {
			small++
		}
		if i == 0 && size < 900 {
			t.Errorf("the busy pod gets %d", size)
		}
	}
	if small != cluster.MaxListed {
		t.Errorf("%d pods are small", small)
	}
	if fresh := *all[0].Pods[1]; true {
		fresh.UID = ""
		if size := s.Autoscaler.For(&fresh).Advice[0].Target.CPU; size < 900 {
			t.Errorf("a new pod gets %d", size)
		}
	}
	for _, p := range all[0].Pods {
		p.UID += "'"
	}
	measure(b, all, 4*day+13*time.Hour, 4*day+14*time.Hour, leads(0))
	if got := b.Apply(s, adviceFor(100)); len(got[0].Groups) != 0 {
		t.Errorf("all pods are new: %+v", got[0].Groups)
	}
	if size := unsafe.Sizeof(level{}); size > 64 {
		t.Errorf("%d bytes for each pod", size)
	}
}
