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
	"podfit.dev/podfit/test/kubetest"
)

// process is the part of a recommender that keeps and stores the usage history of one workload.
type process struct {
	t            *testing.T
	api          *kubetest.FakeAPI
	profile      recommend.Profile
	a            *cluster.Autoscaler
	store        *usage.Store
	pods         []*cluster.Pod
	inCheckpoint bool // the model state is stored in an annotation of the checkpoint
}

func newProcess(t *testing.T, p recommend.Profile) *process {
	l := &process{t: t, api: kubetest.NewFakeAPI(t), profile: p}
	l.a = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: deployment("web"), Recommender: p.Name}
	for i := range 2 {
		l.pods = append(l.pods, l.pod(fmt.Sprint("web-", i)))
	}
	l.start(time.Time{})
	return l
}

func (l *process) pod(name string) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: "uid-" + name, Top: l.a.Target, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app"}, {Name: "proxy"}},
	}
}

// start creates a new store and restores the stored history.
func (l *process) start(now time.Time) {
	l.store = usage.NewStore(usage.DefaultConfig())
	l.store.Tick(now)
	l.store.Configure(l.a.Target, nil)
	if l.profile.Extend != nil {
		l.store.Extend(l.a.Target, l.profile.Extend)
	}
	histories := loadHistories(l.t, newHistories(l.t, l.api, StorageOptions{}))[l.a.Target]
	for key, c := range loadAll(l.t, NewCheckpoints(clientsOf(l.api), StorageOptions{})) {
		if i := slices.IndexFunc(histories, func(h usage.History) bool { return h.Container == key.Container }); i >= 0 {
			c.History = histories[i]
		}
		if err := l.store.Restore(l.a.Target, key.Container, c); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, p := range l.pods {
		l.store.Track(p)
	}
}

// restart stores the history and starts again.
func (l *process) restart(now time.Time) {
	l.t.Helper()
	checkpoints := NewCheckpoints(clientsOf(l.api), StorageOptions{})
	histories := newHistories(l.t, l.api, StorageOptions{})
	if !l.inCheckpoint {
		if _, err := histories.Write(l.t.Context(), l.a.Target, l.store.Histories(l.a.Target, now)); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, s := range l.store.All(l.a.Target) {
		c, ok := l.store.Checkpoint(l.a.Target, s.Container(), now)
		if !ok {
			continue
		}
		if l.inCheckpoint {
			c = c.Carry()
		}
		if err := checkpoints.Write(l.t.Context(), Key{l.a.Key, s.Container()}, c); err != nil {
			l.t.Fatal(err)
		}
	}
	l.start(now)
}

func (l *process) advice(now time.Time) []cluster.Advice {
	return recommend.Workload(l.profile.Params, l.profile.Estimator, l.store, l.a, l.a.Target, now)
}

// A recommender that restarts often, with the objects in the API server, always makes the same recommendations as one that does not
// restart. Only the default profile may differ, because upstream's checkpoints are rounded: by one bucket, once in a hundred
// recommendations.
func TestRestart_throughAPIServer_recommendationsAreEqual(t *testing.T) {
	for _, p := range recommend.Builtins() {
		for _, inCheckpoint := range []bool{false, true} {
			name := p.Name
			days := 18
			if inCheckpoint {
				if p.Extend == nil {
					continue
				}
				days = 4
				name += ", model state in the checkpoint"
			}
			t.Run(name, func(t *testing.T) {
				continuous := newProcess(t, p)
				restarted := newProcess(t, p)
				restarted.inCheckpoint = inCheckpoint
				compareRecommendations(t, continuous, restarted, days)
			})
		}
	}
}

func compareRecommendations(t *testing.T, continuous, restarted *process, days int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, uint64(len(continuous.profile.Name))))
	both := [...]*process{continuous, restarted}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	end := now.AddDate(0, 0, days)
	restarts := 0
	recommendations := 0
	different := 0
	for now.Before(end) {
		now = now.Add(time.Duration(600+rnd.IntN(300)) * time.Second)
		if rnd.IntN(40) == 0 {
			restarts++
			restarted.restart(now)
		}
		replaced := rnd.IntN(400) == 0
		usages := drawUsages(rnd, now)
		for _, l := range both {
			l.store.Tick(now)
			if replaced {
				l.store.Forget(l.pods[1].Key)
				l.pods[1] = l.pod(fmt.Sprint("web-", now.Unix()))
				l.store.Track(l.pods[1])
			}
			for i, u := range usages {
				u.Pod = l.pods[i/2].Key
				if u.Memory > 6e8 {
					l.store.ObserveOOM(usage.OOM{Pod: u.Pod, Container: u.Container, At: u.At, Memory: 5e8})
					continue
				}
				l.store.Observe(u)
			}
		}
		recommendations++
		if got, want := restarted.advice(now), continuous.advice(now); !slices.EqualFunc(got, want, cluster.Advice.Equal) {
			different++
			if continuous.profile.Extend != nil || len(got) != len(want) {
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
	t.Logf("%d recommendations, %d restarts, %d recommendations differ by rounding", recommendations, restarts, different)
	if restarts < days/2 || different > recommendations/100 {
		t.Errorf("%d of %d recommendations differ after %d restarts", different, recommendations, restarts)
	}
}

// drawUsages returns a sample for each of two containers in two pods, with a daily pattern and with random spikes.
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

// The budgets of the objects in etcd are 500 bytes per UsageHistory, 2,100 more per container, and 150 for the annotation of a
// checkpoint of two pods. The metadata that the API server adds (about 500 bytes) is not included. Measured: 270, at most 1,780, and 140.
func TestStorage_sizeOfObjects_isBounded(t *testing.T) {
	const object, container, annotation = 500, 2100, 150
	for _, p := range recommend.Builtins() {
		if p.Extend == nil {
			continue
		}
		l := newProcess(t, p)
		rnd := rand.New(rand.NewPCG(1, 2))
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for range 22 * 24 * 6 {
			now = now.Add(10 * time.Minute)
			l.store.Tick(now)
			for i, u := range drawUsages(rnd, now) {
				u.Pod = l.pods[i/2].Key
				u.CPU *= math.Exp(0.5 * rnd.NormFloat64())
				l.store.Observe(u)
			}
		}
		l.restart(now)
		for containers := 1; containers <= 2; containers++ {
			hs := l.store.Histories(l.a.Target, now)[:containers]
			o := map[string]any{"apiVersion": "podfit.dev/v1alpha1", "kind": "UsageHistory", "metadata": map[string]string{"namespace": "shop", "name": "deployment-web"},
				"spec": map[string]any{"target": map[string]string{"group": "apps", "kind": "Deployment", "name": "web"}}, "status": historyStatus(hs)}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-17s %d containers: %4d bytes of data, %4d as an object", p.Name, containers, historyStatus(hs).Size, len(text))
			if len(text) > object+containers*container {
				t.Errorf("%s: %d bytes for %d containers, want at most %d", p.Name, len(text), containers, object+containers*container)
			}
		}
		for _, key := range l.api.Keys(kubetest.CheckpointsPath) {
			a, _ := kubetest.MetaOf(l.api.Object(kubetest.CheckpointsPath, key))["annotations"].(map[string]any)
			if s, _ := a[annotationWindow].(string); len(s) == 0 || len(s) > annotation {
				t.Errorf("%s: the annotation of %s has %d bytes, want 1 to %d", p.Name, key, len(s), annotation)
			}
		}
	}
}
