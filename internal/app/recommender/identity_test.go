// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// traced is a bench whose usage comes from a trace. It records all recommendations.
type traced struct {
	*bench
	trace *replay.Workload
	next  int                        // index of the next sample
	advs  map[int64][]cluster.Advice // by time, in Unix seconds
}

func (b *traced) Samples(context.Context) ([]usage.Sample, error) {
	var out []usage.Sample
	for w := b.trace; b.next < len(w.Samples) && w.Samples[b.next].At < time.Now().Unix(); b.next++ {
		s := &w.Samples[b.next]
		out = append(out, usage.Sample{
			Pod: cluster.Key{Namespace: w.Key.Namespace, Name: w.Pods[s.Pod]}, Container: w.Containers[s.Container],
			At: time.Unix(s.At, 0).UTC(), CPU: measured(s.CPU), Memory: s.Memory, Has: s.Has,
		})
	}
	return out, nil
}

func (b *traced) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	b.advs[now.Unix()] = adv
	return b.bench.WriteStatus(ctx, a, adv, now, cs...)
}

// measured rounds cores as the reader of the Metrics API does, which receives nanocores.
func measured(cores float64) float64 {
	return float64(resource.NewScaledQuantity(int64(cores*1e9), resource.Nano).MilliValue()) / 1000
}

func (b *traced) dependencies() dependencies {
	d := b.bench.dependencies()
	d.world = b
	d.source = always(b)
	return d
}

const traceDays = 8

// drawTrace returns random usage of two pods of a workload, with a sample every ten minutes, a daily pattern, spikes, a gap of a
// day and a half, and a second pod that starts later.
func drawTrace(start time.Time, w cluster.Workload) *replay.Workload {
	rnd := rand.New(rand.NewPCG(3, 5))
	out := &replay.Workload{Key: w, Pods: []string{"web-0", "web-1"}, Containers: []string{"app", "proxy"}}
	for at := start.Unix() + 600; at < start.Unix()+traceDays*86400; at += 600 {
		age := float64(at-start.Unix()) / 86400
		if age > 4 && age < 5.5 {
			continue
		}
		for pod := range int32(2) {
			if pod == 1 && age < 1.25 {
				continue
			}
			for c := range int16(2) {
				level := (1 + 0.5*math.Sin(2*math.Pi*age)) * math.Exp(0.1*rnd.NormFloat64())
				if rnd.IntN(700) == 0 {
					level *= 2.5
				}
				s := replay.Sample{At: at - 1 - int64(rnd.IntN(59)), CPU: 0.15 * level, Memory: 3e8 * level, Pod: pod, Container: c, Has: cluster.Both}
				if rnd.IntN(20) == 0 {
					s.Has = cluster.Of(cluster.CPU)
				}
				out.Samples = append(out.Samples, s)
			}
		}
	}
	out.Sort()
	return out
}

func TestRecommender_sameTraceAsABacktest_recommendsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, p := range recommend.Builtins() {
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &traced{bench: newBench(t), advs: map[int64][]cluster.Advice{}}
				w := b.deployment("web", 2, "app", "proxy")
				b.autoscale("web", w).Recommender = p.Name
				b.trace = drawTrace(time.Now(), w)
				later := slices.IndexFunc(b.trace.Samples, func(s replay.Sample) bool { return s.Pod == 1 })
				b.pods[1].Started = time.Unix(b.trace.Samples[later].At, 0).UTC() // a backtest takes the first sample for the start
				for i := range b.pods[1].Containers {
					b.pods[1].Containers[i].Delay = 1
				}

				want := map[int64][]cluster.Advice{}
				p.Mode = cluster.Off // this test compares recommendations, not updates
				for now, adv := range replay.Advice(b.trace, p) {
					want[now.Unix()] = slices.Clone(adv)
				}

				b.config.Interval, b.config.StatusInterval = 10*time.Minute, 0 // each pass writes the bounds
				ctx, cancel := context.WithTimeout(t.Context(), traceDays*24*time.Hour)
				defer cancel()
				r := newRecommender(b.config, b.dependencies())
				process.Every(ctx, b.config.Interval, r.pass)

				compared := 0
				for _, at := range slices.Sorted(maps.Keys(want)) {
					got, ok := b.advs[at]
					if !ok {
						continue
					}
					compared++
					for i := range got { // a backtest has no limits
						got[i].MemoryLimit, got[i].MemoryPeak = 0, 0
					}
					if !slices.EqualFunc(got, want[at], cluster.Advice.Equal) {
						t.Fatalf("at %v the recommender recommends\n%+v, the backtest\n%+v", time.Unix(at, 0).UTC(), got, want[at])
					}
				}
				if compared < 900 {
					t.Errorf("only %d of %d recommendations could be compared", compared, len(want))
				}
			})
		})
	}
}

// A recommender that is restarted always recommends the same as one that is not. The default profile is excluded, because
// upstream's checkpoint format rounds (TestRestart_throughAPIServer_recommendationsAreEqual).
func TestRecommender_orderlyRestart_recommendsTheSame(t *testing.T) {
	for _, p := range recommend.Builtins() {
		if p.Extend == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clusters [2]*traced
				var recommenders [2]*recommender
				start := func(i int) {
					b := clusters[i]
					recommenders[i] = newRecommender(b.config, b.dependencies())
					if err := recommenders[i].load(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for i := range clusters {
					clusters[i] = &traced{bench: newBench(t), advs: map[int64][]cluster.Advice{}}
					w := clusters[i].deployment("web", 2, "app", "proxy")
					clusters[i].autoscale("web", w).Recommender = p.Name
					clusters[i].nodes = []cluster.Node{{Name: "small", Allocatable: cluster.Amounts(800, 16<<30), Ready: true}}
					clusters[i].trace = drawTrace(time.Now(), w)
					start(i)
				}
				days := 3
				if p.Packs() { // it packs from the fourth day on
					days = 6
				}
				compared, packed := 0, 0
				for pass := range days * 144 {
					time.Sleep(10 * time.Minute)
					now := time.Now()
					for _, c := range clusters { // nodes that are there for two hours count for a day
						c.nodes[0].Allocatable.Memory = 64 << 30
						if pass%400 < 12 { // while there are samples, with which checkpoints are stored
							c.nodes[0].Allocatable.Memory = 3 << 30
						}
					}
					if pass%17 == 3 {
						recommenders[1].end(t.Context())
						start(1)
					}
					for _, r := range recommenders {
						r.pass(t.Context(), now)
					}
					want, got := clusters[0].autoscalers[0].Advice, clusters[1].autoscalers[0].Advice
					if !slices.EqualFunc(got, want, cluster.Advice.Equal) {
						t.Fatalf("pass %d: %+v, want %+v", pass, got, want)
					}
					compared += len(want)
					if clusters[1].condition("web", v1alpha1.ConditionPackingNotPossible).Status == watcher.Removed {
						packed++
					}
				}
				if p.Packs() && packed < 2*144 {
					t.Errorf("packed in %d passes only", packed)
				}
				if compared < 2*days*140 {
					t.Errorf("only %d recommendations were compared", compared)
				}
			})
		})
	}
}
