// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/app/recommender/grouping"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

// What is compared.
const (
	oneSize   = "one size"
	byRole    = "size by role"
	ownMemory = "size by role, memory too"
)

const (
	learning  = 4 * 24 * 3600 // seconds that are not measured: groups need a day of history, memory three
	interval  = 300           // seconds between two recommendations
	minChange = 0.02          // smallest relative difference that changes a request
)

// A pair is two recordings that begin at the same time, as the pods of one workload.
type pair [2][]replay.Sample

// pairsOf makes a pair of each workload and the next one, and of the last one and the first. Only their first pods and containers count.
func pairsOf(all []replay.Workload) []pair {
	var out []pair
	for i := range all {
		if len(all) > 1 {
			out = append(out, pair{firstPod(&all[i]), firstPod(&all[(i+1)%len(all)])})
		}
	}
	return out
}

func firstPod(w *replay.Workload) []replay.Sample {
	var out []replay.Sample
	for _, s := range w.Samples {
		if s.Pod == 0 && s.Container == 0 {
			s.At -= w.Samples[0].At
			out = append(out, s)
		}
	}
	return out
}

// A measure adds up one resource over all pods and samples.
type measure struct {
	requested, used  float64 // sums over samples; usage above the request counts as the request
	podDays, exceeds int     // days of pods, and those with usage above the request
}

// A result is the measures by resource, and the pairs in which a role had a size of its own at the end.
type result struct {
	of      [len(cluster.All)]measure
	grouped int
}

func replayAll(pairs []pair, profile, sizes string) (out result) {
	for i, p := range pairs {
		r := newReplay(i, profile, sizes)
		r.run(p)
		for k := range out.of {
			m := &out.of[k]
			m.requested += r.of[k].requested
			m.used += r.of[k].used
			m.podDays += r.of[k].podDays
			m.exceeds += r.of[k].exceeds
		}
		if len(r.advice) > 0 && len(r.advice[0].Groups) > 0 {
			out.grouped++
		}
	}
	return out
}

// A pairReplay is a workload of two pods with its recommender. The updater is one that resizes in place at once.
type pairReplay struct {
	result
	autoscaler *cluster.Autoscaler
	choice     *sizing.Choice
	store      *usage.Store
	groups     *grouping.Book
	all        []grouping.Workload
	pods       []*cluster.Pod
	advice     []cluster.Advice
	requests   [2]cluster.Resources
	exceeded   [2][len(cluster.All)]bool // on the present day
	day        int64
}

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func newReplay(i int, profile, sizes string) *pairReplay {
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: fmt.Sprint("pair-", i)}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: w.Namespace, Name: w.Name}, Target: w, Mode: cluster.InPlace, Recommender: profile}
	if sizes != oneSize {
		a.Rules.RoleLabel = "role"
	}
	if sizes == ownMemory {
		a.Rules.Followers = "own"
	}
	r := &pairReplay{autoscaler: a, choice: sizing.NewCatalog(recommend.DefaultParams(), false).Of(a), store: usage.NewStore(usage.DefaultConfig()),
		groups: grouping.New(usage.DefaultConfig(), 24*time.Hour, 5*time.Minute)}
	for n := range 2 {
		p := &cluster.Pod{Key: cluster.Key{Namespace: w.Namespace, Name: fmt.Sprintf("%s-%d", w.Name, n)}, UID: fmt.Sprintf("%d-%d", i, n), Top: w, Phase: cluster.Running,
			Marks: &cluster.Marks{Labels: fmt.Sprintf("role=r%d", n)}, Containers: []cluster.Container{{Name: "app"}}}
		r.pods = append(r.pods, p)
		r.store.Track(p)
	}
	if r.choice.Edition.ModelState {
		r.store.Extend(w, r.choice.Extend)
	}
	r.all = []grouping.Workload{{Autoscaler: a, Choice: r.choice, Pods: r.pods}}
	return r
}

// run replays both recordings up to the end of the shorter one.
func (r *pairReplay) run(p pair) {
	end := min(last(p[0]), last(p[1]))
	next := [2]int{}
	for at := int64(0); at <= end; at += 60 {
		now := start.Add(time.Duration(at) * time.Second)
		r.store.Tick(now)
		for n := range p {
			for ; next[n] < len(p[n]) && p[n][next[n]].At <= at; next[n]++ {
				r.observe(n, &p[n][next[n]], now)
			}
		}
		if at%interval == 0 {
			r.decide(now)
		}
	}
	r.endDay()
}

func last(all []replay.Sample) int64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].At
}

func (r *pairReplay) observe(n int, s *replay.Sample, now time.Time) {
	sample := usage.Sample{Pod: r.pods[n].Key, Container: "app", At: now, CPU: s.CPU, Memory: s.Memory, Has: s.Has}
	r.store.Observe(sample)
	r.groups.Observe(&sample)
	if s.At < learning {
		return
	}
	if day := s.At / (24 * 3600); day != r.day {
		r.endDay()
		r.day = day
	}
	for k, res := range cluster.All {
		request, has := r.requests[n].Get(res)
		if !has || !s.Has.Has(res) {
			continue
		}
		used := s.Used(res) * cluster.Pick(res, 1000.0, 1)
		r.of[k].requested += float64(request)
		r.of[k].used += min(used, float64(request))
		if used > float64(request) {
			r.exceeded[n][k] = true
		}
	}
}

// endDay counts the days of both pods.
func (r *pairReplay) endDay() {
	for n := range r.exceeded {
		for k, res := range cluster.All {
			if r.day == 0 || !r.requests[n].Has.Has(res) {
				continue
			}
			r.of[k].podDays++
			if r.exceeded[n][k] {
				r.of[k].exceeds++
			}
		}
	}
	r.exceeded = [2][len(cluster.All)]bool{}
}

// decide computes the recommendation, and gives each pod its size.
func (r *pairReplay) decide(now time.Time) {
	a, profile := r.autoscaler, r.choice.Profile
	r.groups.Configure(now, r.all)
	r.groups.Track(nil)
	advice := policy.Cap(a, recommend.Workload(profile.Params, profile.Estimator, r.store, a, a.Target, now), cluster.Resources{}, profile.Node)
	r.advice = r.groups.Apply(&grouping.Sizing{Profile: profile, Autoscaler: a}, advice)
	sized := *a
	sized.Advice = r.advice
	a.Advice = r.advice
	if len(r.advice) == 0 {
		return
	}
	for n, p := range r.pods {
		target := r.advice[0].Target
		own := sized.OwnTarget(p, "app")
		for _, res := range cluster.All {
			wanted, has := target.Get(res)
			if v, has := own.Get(res); has {
				wanted = v
			}
			before := r.requests[n].Amount(res)
			if has && (before == 0 || float64(wanted) > (1+minChange)*float64(before) || float64(wanted) < (1-minChange)*float64(before)) {
				r.requests[n] = r.requests[n].Set(res, wanted)
			}
		}
	}
}
