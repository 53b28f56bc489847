// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

func TestRolesOf_moreThanEight_thoseWithPodsAndHistoryStay(t *testing.T) {
	var pods []*cluster.Pod
	for i := range 20 {
		pods = append(pods, &cluster.Pod{Phase: cluster.Running, Marks: &cluster.Marks{Labels: fmt.Sprintf("role=%02d", i)}})
	}
	want := []string{"00", "01", "02", "03", "04", "05", "17", "19"}
	a := &cluster.Autoscaler{}
	a.Rules.RoleLabel = "role"
	if got := rolesOf(pods, a.RoleOf, []string{"19", "17", "gone"}); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := rolesOf(nil, a.RoleOf, []string{"b", "a"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v without pods", got)
	}
}

// measured returns a Book in which a leader and two followers were measured for a day, and what their workload is sized by.
func measured(profile string) (*Book, *Sizing, []Workload) {
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "db"}, Target: w, Mode: cluster.InPlace, Recommender: profile}
	a.Rules.RoleLabel = "role"
	choice := sizing.NewCatalog(recommend.DefaultParams(), false).Of(a)
	var pods []*cluster.Pod
	for i, role := range []string{"leader", "follower", "follower"} {
		pods = append(pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("db-%d", i)}, UID: fmt.Sprint(i), Top: w, Phase: cluster.Running,
			Marks: &cluster.Marks{Labels: "role=" + role}, Containers: []cluster.Container{{Name: "app"}}})
	}
	b := New(usage.DefaultConfig(), 24*time.Hour, time.Minute)
	all := []Workload{{Autoscaler: a, Choice: choice, Pods: pods}}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for minute := range 26 * 60 {
		at := start.Add(time.Duration(minute) * time.Minute)
		b.Configure(at, all)
		b.Track(nil)
		for i, p := range pods {
			cores := 0.3
			if i == 0 {
				cores = 0.9
			}
			b.Observe(&usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: cores, Memory: 5e8, Has: cluster.Both})
		}
	}
	return b, &Sizing{Profile: choice.Profile, Autoscaler: a}, all
}

func adviceFor(cpu int64) []cluster.Advice {
	e := cluster.Estimate{Lower: cluster.Amounts(cpu/2, 1), Target: cluster.Amounts(cpu, 1), Upper: cluster.Amounts(cpu*2, 1)}
	return []cluster.Advice{{Container: "app", Estimate: e, Uncapped: e.Target}}
}

func TestApply_leaderAndFollowers_targetIsTheLargestAndOthersHaveTheirs(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		b, s, all := measured(profile)
		got := b.Apply(s, adviceFor(100))
		if len(got) != 1 || got[0].Target.CPU < 900 || got[0].Uncapped.CPU < 900 || len(got[0].Groups) != 1 || got[0].Groups[0].Role != "follower" ||
			got[0].Groups[0].Target.CPU > 700 || got[0].Groups[0].Target.Has.Has(cluster.Memory) {
			t.Fatalf("profile %q: %+v", profile, got)
		}
		s.Autoscaler.Advice = got
		kept := adviceFor(100)
		if b.Keep(s.Autoscaler, kept); len(kept[0].Groups) != 1 {
			t.Errorf("profile %q: %+v", profile, kept)
		}
		// With the history of another process, nothing is learnt: the sizes of the status stay.
		fresh := New(usage.DefaultConfig(), 24*time.Hour, time.Minute)
		fresh.Configure(b.now, all)
		fresh.Track(nil)
		if got := fresh.Apply(s, adviceFor(100)); got[0].Target.CPU < 900 || len(got[0].Groups) != 1 {
			t.Errorf("profile %q, nothing learnt: %+v", profile, got)
		}
		s.LimitsCPU = true
		s.Autoscaler.Advice = adviceFor(200)
		if got := b.Apply(s, adviceFor(100)); got[0].Target.CPU > 200 {
			t.Errorf("profile %q, no usable node: %+v", profile, got)
		}
	}
}

func TestApply_workloadIsNotSizedByRole_isUnchanged(t *testing.T) {
	b, s, all := measured("")
	off := New(usage.DefaultConfig(), 0, time.Minute)
	off.Configure(b.now, all)
	if got := off.Apply(s, adviceFor(100)); !got[0].Equal(adviceFor(100)[0]) {
		t.Errorf("without --role-history: %+v", got)
	}
	trial := *s
	other := *s.Autoscaler
	other.Name, other.Rules.RoleLabel = "trial", ""
	trial.Autoscaler = &other
	if got := b.Apply(&trial, adviceFor(100)); !got[0].Equal(adviceFor(100)[0]) {
		t.Errorf("a second VPA for the workload, without the annotation: %+v", got)
	}
	b.Configure(b.now, nil)
	if got := b.Apply(s, adviceFor(100)); !got[0].Equal(adviceFor(100)[0]) || len(b.Store.Governed()) != 0 {
		t.Errorf("without the annotation: %+v", got)
	}
}

func TestTrack_evictionForLackOfMemory_groupNeedsMore(t *testing.T) {
	b, s, _ := measured("")
	s.Autoscaler.Rules.Followers = "own"
	b.Track([]usage.OOM{{Pod: cluster.Key{Namespace: "shop", Name: "db-0"}, Container: "app", At: b.now, Memory: 4 << 30}})
	got := b.Apply(s, adviceFor(100))
	if got[0].Target.Memory < 4<<30 || len(got[0].Groups) != 1 || got[0].Groups[0].Target.Memory > 1<<30 {
		t.Errorf("%+v", got)
	}
}

// TestApply_podsAreAlike_noGroups has 1,000 DaemonSets on two sizes of nodes, whose pods have equally distributed usage. The test shows something because
// pods get groups if those on small nodes use a third less.
func TestApply_podsAreAlike_noGroups(t *testing.T) {
	for small, workloads := range map[float64]int{1: 1000, 0.67: 50} {
		b := New(usage.DefaultConfig(), 24*time.Hour, 15*time.Minute)
		catalog := sizing.NewCatalog(recommend.DefaultParams(), false)
		random := rand.New(rand.NewPCG(1, 2))
		var all []Workload
		for i := range workloads {
			w := cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "shop", Name: fmt.Sprint(i)}
			a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: w.Name}, Target: w, NodeSizes: map[string]string{"n0": "4cpu-16Gi", "n1": "64cpu-256Gi"}}
			var pods []*cluster.Pod
			for n := range 4 {
				pods = append(pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%d-%d", i, n)}, UID: fmt.Sprintf("%d-%d", i, n), Top: w,
					Phase: cluster.Running, Node: fmt.Sprintf("n%d", n%2), Containers: []cluster.Container{{Name: "app"}}})
			}
			all = append(all, Workload{Autoscaler: a, Choice: catalog.Of(a), Pods: pods})
		}
		start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for step := range 73 * 4 {
			at := start.Add(time.Duration(step) * 15 * time.Minute)
			b.Configure(at, all)
			b.Track(nil)
			for i, w := range all {
				for n, p := range w.Pods {
					share := 1.0
					if n%2 == 0 {
						share = small
					}
					cores := share * (0.1 + float64(i%100)/50) * math.Exp(random.NormFloat64()/4)
					b.Observe(&usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: cores, Memory: share * 5e8 * math.Exp(random.NormFloat64()/10), Has: cluster.Both})
				}
			}
		}
		b.Configure(start.Add(73*time.Hour), all)
		groups := 0
		for _, w := range all {
			got := b.Apply(&Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}, adviceFor(10))
			groups += len(got[0].Groups)
		}
		if small == 1 && groups > 0 || small < 1 && groups < workloads*9/10 {
			t.Errorf("%d of %d workloads have groups if pods on small nodes use %g times what others use", groups, workloads, small)
		}
	}
}

func TestConfigure_allNodesHaveOneSize_noGroups(t *testing.T) {
	_, _, all := measured("")
	a := all[0].Autoscaler
	a.Target.Kind, a.Rules.RoleLabel = "DaemonSet", ""
	for _, sizes := range []map[string]string{nil, {"n0": "4cpu-16Gi"}, {"n0": "4cpu-16Gi", "n1": "64cpu-256Gi"}} {
		a.NodeSizes = sizes
		for i, p := range all[0].Pods {
			p.Node = fmt.Sprintf("n%d", i)
		}
		b := New(usage.DefaultConfig(), 24*time.Hour, time.Minute)
		b.Configure(time.Now(), all)
		if groups := len(b.Store.Governed()); (groups > 0) != (len(sizes) > 1) {
			t.Errorf("%d groups on nodes of the sizes %v", groups, sizes)
		}
	}
}

// onNodes returns a Book with a DaemonSet of four pods, the first on a large node, whose use of CPU was measured for 26 hours.
func onNodes(cpu func(pod, minute int) float64) (*Book, *Sizing) {
	b, s, all := measured("")
	a := s.Autoscaler
	a.Target = cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "shop", Name: "agent"}
	a.Rules.RoleLabel, a.NodeSizes = "", map[string]string{"n0": "64cpu-256Gi", "n1": "4cpu-16Gi", "n2": "4cpu-16Gi", "n3": "4cpu-16Gi"}
	all[0].Pods = nil
	for i := range 4 {
		name := fmt.Sprintf("agent-%d", i)
		all[0].Pods = append(all[0].Pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Top: a.Target, Phase: cluster.Running,
			Node: fmt.Sprintf("n%d", i), Containers: []cluster.Container{{Name: "app"}}})
	}
	start := b.now
	for minute := range 26 * 60 {
		at := start.Add(time.Duration(minute) * time.Minute)
		b.Configure(at, all)
		b.Track(nil)
		for i, p := range all[0].Pods {
			b.Observe(&usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: cpu(i, minute), Memory: 5e8 / float64(1+i), Has: cluster.Both})
		}
	}
	return b, s
}

// Pods on all nodes would pay for those on some.
func TestApply_noOtherNodeGetsItsSize_targetIsNotRaised(t *testing.T) {
	b, s := onNodes(func(pod, minute int) float64 {
		if pod == 0 && minute%5 == 0 {
			return 2 // its median is that of the other pods
		}
		return 0.01
	})
	plain := adviceFor(100)
	plain[0].Target, plain[0].Uncapped = cluster.Amounts(100, 3e8), cluster.Amounts(100, 3e8)
	if got := b.Apply(s, slices.Clone(plain)); !got[0].Equal(plain[0]) {
		t.Errorf("%+v, want %+v", got[0], plain[0])
	}
}

func TestApply_nodeHasASize_keepsItWithLessEvidence(t *testing.T) {
	b, s := onNodes(func(pod, _ int) float64 { return []float64{1, 0.3, 0.3, 0.3}[pod] })
	got := b.Apply(s, adviceFor(100))
	if len(got[0].Groups) != 1 || got[0].Groups[0].Target.Has != cluster.Of(cluster.CPU) || got[0].Target.CPU < 1000 || got[0].Target.Memory > 1 {
		t.Fatalf("after a day: %+v", got)
	}
	got[0].Groups[0].Target = cluster.Amounts(got[0].Groups[0].Target.CPU, 3e8)
	got[0].Target = got[0].Target.Set(cluster.Memory, 6e8)
	s.Autoscaler.Advice = got
	if kept := b.Apply(s, adviceFor(100)); len(kept[0].Groups) != 1 || kept[0].Groups[0].Target.Has != cluster.Both {
		t.Errorf("memory of its own, as when more pods run than before: %+v", kept)
	}
	s.Autoscaler.Rules.Followers = "same"
	if same := b.Apply(s, adviceFor(100)); len(same[0].Groups) != 1 || same[0].Groups[0].Target.Has != cluster.Of(cluster.CPU) {
		t.Errorf("podfit.dev/followers: same: %+v", same)
	}
}
