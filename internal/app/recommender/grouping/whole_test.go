// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

const mib = 1 << 20

// whole is a Book and a workload whose pod has pod-level requests, two containers and an init container that has ended.
func whole() (*Book, Workload) {
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: w, Mode: cluster.InPlace, Recommender: "balanced"}
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, UID: "1", Top: w, Controller: w, Phase: cluster.Running,
		PodLevel:   &cluster.PodResources{Requests: cluster.Amounts(1000, 1000*mib)},
		Containers: []cluster.Container{{Name: "app"}, {Name: "cache"}, {Name: "migrate", Role: cluster.Init}},
	}
	choice := sizing.NewCatalog(recommend.DefaultParams(), false).Of(a)
	b := New(usage.DefaultConfig(), day, quarter)
	return b, Workload{Autoscaler: a, Choice: choice, Pods: []*cluster.Pod{p}, Whole: b.HasWholePods(a, []*cluster.Pod{p})}
}

// useInTurns lets the containers of the pod use much in turns, from one time to another.
func useInTurns(b *Book, w Workload, from, to time.Duration, evicted bool) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	pod := w.Pods[0].Key
	for at := from; at < to; at += quarter {
		now := start.Add(at)
		b.Configure(now, []Workload{w})
		var evictions []usage.OOM
		if evicted && at == from {
			evictions = []usage.OOM{{Pod: pod, At: now.Add(-time.Minute), Memory: 500 * mib}}
		}
		b.Track(evictions)
		for i, name := range []string{"app", "cache"} {
			s := usage.Sample{Pod: pod, Container: name, At: now, CPU: 0.1, Memory: 100 * mib, Has: cluster.Both}
			if int(at/time.Hour)%2 == i {
				s.CPU, s.Memory = 0.4, 400*mib
			}
			b.Observe(&s)
		}
		b.Observed()
	}
}

// targets are the recommendations for the containers.
func targets() []cluster.Advice {
	var all []cluster.Advice
	for _, name := range []string{"app", "cache"} {
		all = append(all, cluster.Advice{Container: name, Estimate: cluster.Estimate{Target: cluster.Amounts(460, 460*mib)}})
	}
	return all
}

func TestShare_containersTakeTurns_getPartsOfTheWhole(t *testing.T) {
	b, w := whole()
	s := &Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}
	useInTurns(b, w, 0, 20*time.Hour, false)
	if got := b.Share(s, targets()); !got[0].Shared.Has.Empty() {
		t.Errorf("the containers get %v after less than a day", got[0].Shared)
	}
	useInTurns(b, w, 20*time.Hour, 3*day, false)
	got := b.Share(s, targets())
	for _, v := range got {
		if cpu, memory := v.Shared.CPU, v.Shared.Memory/mib; cpu < 250 || cpu > 350 || memory < 250 || memory > 350 {
			t.Errorf("%s gets %dm and %d MiB; the pod uses 500m and 500 MiB", v.Container, cpu, memory)
		}
	}
	small := targets()
	small[0].Target, small[1].Target = cluster.Amounts(10, 10*mib), cluster.Amounts(20, 20*mib)
	if got := b.Share(s, small); !got[0].Shared.Has.Empty() {
		t.Errorf("gets %v, which is more than its target", got[0].Shared)
	}
	grouped := targets()
	grouped[0].Groups = []cluster.GroupSize{{Role: "a"}}
	if got := b.Share(s, grouped); !got[1].Shared.Has.Empty() {
		t.Error("pods with roles share")
	}
}

func TestShare_podWasEvictedForMemory_memoryIsNotShared(t *testing.T) {
	b, w := whole()
	s := &Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}
	useInTurns(b, w, 0, 2*day, false)
	useInTurns(b, w, 2*day, 3*day, true)
	if got := b.Share(s, targets())[0].Shared; got.Has != cluster.Of(cluster.CPU) {
		t.Errorf("shares %v a day after the eviction, want CPU only", got)
	}
	useInTurns(b, w, 3*day, 11*day, false)
	if got := b.Share(s, targets())[0].Shared; got.Has != cluster.Both {
		t.Errorf("shares %v nine days after the eviction, want both", got)
	}
}

func TestShare_nothingIsStored_partsOfTheStatusStayForTwoDays(t *testing.T) {
	b, w := whole()
	w.Autoscaler.Advice = targets()
	for i := range w.Autoscaler.Advice {
		w.Autoscaler.Advice[i].Shared = cluster.Amounts(300, 300*mib)
	}
	s := &Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}
	useInTurns(b, w, 0, 2*time.Hour, false)
	if got := b.Share(s, targets())[0].Shared; got != cluster.Amounts(300, 300*mib) {
		t.Errorf("gets %v, want the part in the status", got)
	}
	w.Pods = nil
	passWithoutPods(b, w, 49*time.Hour)
	if got := b.Share(s, targets())[0].Shared; !got.Has.Empty() {
		t.Errorf("gets %v after two days without samples", got)
	}
}

// passWithoutPods makes a pass without pods.
func passWithoutPods(b *Book, w Workload, at time.Duration) {
	b.Configure(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(at), []Workload{w})
	b.Track(nil)
	b.Observed()
}

// A pod that is created for the next day would get the sum of the targets otherwise, and its model state would be empty.
func TestShare_noPodAtNight_partsStay(t *testing.T) {
	b, w := whole()
	s := &Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}
	useInTurns(b, w, 0, 3*day, false)
	want := b.Share(s, targets())[0].Shared
	pods := w.Pods
	w.Pods, w.Whole = nil, b.HasWholePods(w.Autoscaler, nil)
	passWithoutPods(b, w, 3*day)
	if got := b.Share(s, targets())[0].Shared; want.Has != cluster.Both || got != want {
		t.Errorf("gets %v without pods, and %v before", got, want)
	}
	w.Pods, w.Whole = pods, b.HasWholePods(w.Autoscaler, pods)
	passWithoutPods(b, w, 3*day+12*time.Hour)
	if got := b.Share(s, targets())[0].Shared; got.Has != cluster.Both {
		t.Errorf("gets %v in the morning", got)
	}
	w.Pods, w.Whole = nil, b.HasWholePods(w.Autoscaler, nil)
	passWithoutPods(b, w, 13*day)
	if b.HasWholePods(w.Autoscaler, nil) {
		t.Error("the workload has whole pods nine days after its last one")
	}
}

// An init container runs alone, so that its OOM kill says nothing about what the others share.
func TestShare_initContainerIsKilled_memoryIsShared(t *testing.T) {
	b, w := whole()
	s := &Sizing{Profile: w.Choice.Profile, Autoscaler: w.Autoscaler}
	useInTurns(b, w, 0, 2*day, false)
	killed := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	w.Pods[0].Containers[2].Exit = &cluster.Exit{OOM: true, Now: true, Started: killed.Add(-time.Minute), Finished: killed}
	useInTurns(b, w, 2*day, 3*day, false)
	if got := b.Share(s, targets())[0].Shared; got.Has != cluster.Both {
		t.Errorf("shares %v, want both", got)
	}
}

func TestObserve_containersThatDoNotRunWithThePod_doNotCount(t *testing.T) {
	now := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	b, w := whole()
	b.Configure(now, []Workload{w})
	b.Track(nil)
	for _, name := range []string{"app", "debugger", "migrate"} {
		b.Observe(&usage.Sample{Pod: w.Pods[0].Key, Container: name, At: now, CPU: 1, Memory: mib, Has: cluster.Both})
	}
	if total := b.sums[w.Pods[0].Key]; total.n != 1 || total.CPU != 1 || total.Memory != mib {
		t.Errorf("%d containers use %v cores and %v bytes, want those of app", total.n, total.CPU, total.Memory)
	}
}

func TestKeep_noRoleHistory_nothingStays(t *testing.T) {
	for history, want := range map[time.Duration]bool{0: false, day: true} {
		a := &cluster.Autoscaler{Advice: targets()}
		a.Advice[0].Shared = cluster.Amounts(300, 300*mib)
		all := targets()
		New(usage.DefaultConfig(), history, quarter).Keep(a, all)
		if !all[0].Shared.Has.Empty() != want {
			t.Errorf("--role-history=%s: the part is %v", history, all[0].Shared)
		}
	}
}
