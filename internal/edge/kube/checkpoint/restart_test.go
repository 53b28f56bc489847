// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

// life is a workload whose usage is remembered and stored.
type life struct {
	t       *testing.T
	api     *kubetest.FakeAPI
	profile recommend.Profile
	a       *cluster.Autoscaler
	book    *usage.Store
	pods    []*cluster.Pod
	carried bool // what the profile remembers travels in the annotation
}

func newLife(t *testing.T, p recommend.Profile) *life {
	l := &life{t: t, api: kubetest.NewFakeAPI(t), profile: p}
	l.a = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: deployment("web"), Recommender: p.Name}
	for i := range 2 {
		l.pods = append(l.pods, l.pod(fmt.Sprint("web-", i)))
	}
	l.start(time.Time{})
	return l
}

func (l *life) pod(name string) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: "uid-" + name, Top: l.a.Target, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app"}, {Name: "proxy"}},
	}
}

// start begins anew with what is stored.
func (l *life) start(now time.Time) {
	l.book = usage.NewStore(usage.DefaultConfig())
	l.book.Tick(now)
	l.book.Configure(l.a.Target, nil)
	if l.profile.Extend != nil {
		l.book.Extend(l.a.Target, l.profile.Extend)
	}
	remembered := loadHistories(l.t, newHistories(l.t, l.api, StorageOptions{}))[l.a.Target]
	for key, c := range loadAll(l.t, NewCheckpoints(clientsOf(l.api), StorageOptions{})) {
		if i := slices.IndexFunc(remembered, func(h usage.History) bool { return h.Container == key.Container }); i >= 0 {
			c.History = remembered[i]
		}
		if err := l.book.Restore(l.a.Target, key.Container, c); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, p := range l.pods {
		l.book.Track(p)
	}
}

// restart stores everything and begins anew.
func (l *life) restart(now time.Time) {
	l.t.Helper()
	checkpoints, histories := NewCheckpoints(clientsOf(l.api), StorageOptions{}), newHistories(l.t, l.api, StorageOptions{})
	if !l.carried {
		if _, err := histories.Write(l.t.Context(), l.a.Target, l.book.Histories(l.a.Target, now)); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, s := range l.book.All(l.a.Target) {
		c, ok := l.book.Checkpoint(l.a.Target, s.Container(), now)
		if !ok {
			continue
		}
		if l.carried {
			c = c.Carry()
		}
		if err := checkpoints.Write(l.t.Context(), Key{l.a.Key, s.Container()}, c); err != nil {
			l.t.Fatal(err)
		}
	}
	l.start(now)
}

func (l *life) advice(now time.Time) []cluster.Advice {
	return recommend.Workload(l.profile.Params, l.profile.Estimator, l.book, l.a, l.a.Target, now)
}

// A recommender that is restarted again and again, through the objects in the API server, recommends at every moment what
// one does that never was. Only the default profile, which lives on upstream's checkpoints alone, may be off by the
// rounding of these: by a bucket, once in a hundred answers.
func TestRestart_throughAPIServer_recommendationsAreEqual(t *testing.T) {
	for _, p := range recommend.Builtins() {
		for _, carried := range []bool{false, true} {
			name, days := p.Name, 18
			if carried {
				if p.Extend == nil {
					continue
				}
				days = 4
				name += ", carried by the checkpoint"
			}
			t.Run(name, func(t *testing.T) {
				always, restarted := newLife(t, p), newLife(t, p)
				restarted.carried = carried
				compareLives(t, always, restarted, days)
			})
		}
	}
}

func compareLives(t *testing.T, always, restarted *life, days int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, uint64(len(always.profile.Name))))
	both := [...]*life{always, restarted}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	end := now.AddDate(0, 0, days)
	restarts, answers, off := 0, 0, 0
	for now.Before(end) {
		now = now.Add(time.Duration(600+rnd.IntN(300)) * time.Second)
		if rnd.IntN(40) == 0 {
			restarts++
			restarted.restart(now)
		}
		replaced := rnd.IntN(400) == 0
		usages := drawUsages(rnd, now)
		for _, l := range both {
			l.book.Tick(now)
			if replaced {
				l.book.Forget(l.pods[1].Key)
				l.pods[1] = l.pod(fmt.Sprint("web-", now.Unix()))
				l.book.Track(l.pods[1])
			}
			for i, u := range usages {
				u.Pod = l.pods[i/2].Key
				if u.Memory > 6e8 {
					l.book.ObserveOOM(usage.OOM{Pod: u.Pod, Container: u.Container, At: u.At, Memory: 5e8})
					continue
				}
				l.book.Observe(u)
			}
		}
		answers++
		if got, want := restarted.advice(now), always.advice(now); !slices.Equal(got, want) {
			if off++; always.profile.Extend != nil || len(got) != len(want) {
				t.Fatalf("at %v, after %d restarts:\n%+v, want\n%+v", now, restarts, got, want)
			}
			for i := range got {
				for _, r := range cluster.All {
					if g, w := got[i].Target.Amount(r), want[i].Target.Amount(r); math.Abs(float64(g-w)) > 0.09*float64(w) {
						t.Fatalf("at %v, after %d restarts: %s of %s is %d, want %d", now, restarts, r, got[i].Container, g, w)
					}
				}
			}
		}
	}
	t.Logf("%d answers, %d restarts, %d off by rounding", answers, restarts, off)
	if restarts < days/2 || off > answers/100 {
		t.Errorf("%d of %d answers are off after %d restarts", off, answers, restarts)
	}
}

// drawUsages returns a round of samples of two containers in two pods: with a day in it, and with spikes.
func drawUsages(rnd *rand.Rand, now time.Time) []usage.Sample {
	day := 1 + 0.4*math.Sin(2*math.Pi*float64(now.Unix()%86400)/86400)
	var us []usage.Sample
	for range 2 {
		for _, container := range []string{"app", "proxy"} {
			spike := 1.0
			if rnd.IntN(500) == 0 {
				spike = 1 + 2*rnd.Float64()
			}
			us = append(us, usage.Sample{
				Container: container, At: now.Add(-time.Duration(rnd.IntN(60)) * time.Second), Has: cluster.Both,
				CPU: 0.2 * day * spike * math.Exp(0.2*rnd.NormFloat64()), Memory: 2e8 * day * spike * math.Exp(0.05*rnd.NormFloat64()),
			})
		}
	}
	return us
}

// Budgets of what stands in etcd, without what the API server adds (some 500 bytes): per object 500 bytes, per container
// 2,100; and 150 bytes in the annotation of a checkpoint of two pods. Measured: 270, at most 1,780, and 140.
func TestStorage_sizeOfObjects_isBounded(t *testing.T) {
	const object, container, annotation = 500, 2100, 150
	for _, p := range recommend.Builtins() {
		if p.Extend == nil {
			continue
		}
		l := newLife(t, p)
		rnd := rand.New(rand.NewPCG(1, 2))
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for range 22 * 24 * 6 {
			now = now.Add(10 * time.Minute)
			l.book.Tick(now)
			for i, u := range drawUsages(rnd, now) {
				u.Pod = l.pods[i/2].Key
				u.CPU *= math.Exp(0.5 * rnd.NormFloat64())
				l.book.Observe(u)
			}
		}
		l.restart(now)
		for containers := 1; containers <= 2; containers++ {
			hs := l.book.Histories(l.a.Target, now)[:containers]
			o := map[string]any{"apiVersion": "podfit.dev/v1alpha1", "kind": "UsageHistory", "metadata": map[string]string{"namespace": "shop", "name": "deployment-web"},
				"spec": map[string]any{"target": map[string]string{"group": "apps", "kind": "Deployment", "name": "web"}}, "status": historyStatus(hs)}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-17s %d containers: %4d bytes of data, %4d as an object", p.Name, containers, historyStatus(hs).Size, len(text))
			if len(text) > object+containers*container {
				t.Errorf("%s: %d bytes for %d containers", p.Name, len(text), containers)
			}
		}
		for _, key := range l.api.Keys(kubetest.CheckpointsPath) {
			a, _ := kubetest.MetaOf(l.api.Object(kubetest.CheckpointsPath, key))["annotations"].(map[string]any)
			if s, _ := a[annotationWindow].(string); len(s) == 0 || len(s) > annotation {
				t.Errorf("%s: the annotation of %s has %d bytes", p.Name, key, len(s))
			}
		}
	}
}
