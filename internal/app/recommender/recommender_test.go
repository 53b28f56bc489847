// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
)

// bench is a fake cluster for a recommender. The next snapshot contains the written statuses.
type bench struct {
	t               *testing.T
	config          Config
	pods            []*cluster.Pod
	autoscalers     []*cluster.Autoscaler
	problem         string
	known           bool
	use             map[string]cluster.Resources // by container
	useOf           map[string]cluster.Resources // by pod, instead of use
	usageErr        error
	conditionWrites int // of writes, those of conditions only

	written     map[cluster.Key][]watcher.Condition // as passed to the last WriteStatus
	stand       map[cluster.Key][]watcher.Condition // in the status
	writes      int
	stored      map[checkpoint.Key]usage.Checkpoint
	storeWrites int
	remembered  *benchHistories
	loadErrs    int
	statusErr   map[string]error  // by autoscaler
	profiles    map[string]string // the specs of SizingProfiles, by name
	profilesErr error
	nodes       []cluster.Node
	limits      cluster.LimitRange
	evictions   []usage.OOM
	scales      map[cluster.Workload]cluster.Scale
	stale       []string             // names of stale watches
	leaks       int64                // bytes a day, with leak
	leaked      time.Time            // when leak last increased usage
	registry    *prometheus.Registry // of the last dependencies
	writer      *watcher.World       // also writes each status; nil: none does
	api         *kubetest.FakeAPI    // that the writer writes to
	mu          sync.Mutex           // for concurrent writers
}

func (b *bench) List(context.Context) ([]kube.SizingProfile, error) {
	if b.profilesErr != nil {
		return nil, b.profilesErr
	}
	var out []kube.SizingProfile
	for _, name := range slices.Sorted(maps.Keys(b.profiles)) {
		spec := b.profiles[name]
		out = append(out, kube.SizingProfile{Name: name, Version: spec, JSON: fmt.Appendf(nil,
			`{"apiVersion": "podfit.dev/v1alpha1", "kind": "SizingProfile", "metadata": {"name": %q, "uid": "u", "resourceVersion": "7"}, "spec": %s}`, name, spec)})
	}
	return out, nil
}

func (b *bench) Nodes() []cluster.Node               { return slices.Clone(b.nodes) }
func (b *bench) Selectors() []cluster.NodeSelector   { return nil }
func (b *bench) Tolerations() []cluster.Tolerations  { return nil }
func (b *bench) NewNodes() ([]cluster.NewNode, bool) { return nil, true }
func (b *bench) Daemons() []cluster.Daemon           { return nil }

// dependencies returns the dependencies of a recommender of the bench.
func (b *bench) dependencies() dependencies {
	b.registry = prometheus.NewRegistry()
	return dependencies{
		world: b, source: always(b), listed: b.List, storage: b.storage(),
		metrics: NewMetrics(b.registry), health: process.NewHealth(time.Hour), log: slog.New(slog.DiscardHandler),
	}
}

// always returns a source of usage that does not depend on which autoscalers are served.
func always(s sampler) func(func(*cluster.Autoscaler) bool) sampler {
	return func(func(*cluster.Autoscaler) bool) sampler { return s }
}

func newBench(t *testing.T) *bench {
	c := Defaults()
	return &bench{
		t: t, config: c, known: true, use: map[string]cluster.Resources{},
		written: map[cluster.Key][]watcher.Condition{}, stand: map[cluster.Key][]watcher.Condition{}, stored: map[checkpoint.Key]usage.Checkpoint{},
		remembered: newBenchHistories(),
	}
}

func (b *bench) Snapshot() *cluster.Snapshot                      { return cluster.NewSnapshot(b.pods, b.autoscalers) }
func (b *bench) Stale(time.Time) []string                         { return b.stale }
func (b *bench) Limits(string) cluster.LimitRange                 { return b.limits }
func (b *bench) Scale(w cluster.Workload) cluster.Scale           { return b.scales[w] }
func (b *bench) TargetProblem(*cluster.Autoscaler) (string, bool) { return b.problem, b.known }
func (b *bench) MemoryEvictions() []usage.OOM                     { return b.evictions }

func (b *bench) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.statusErr[a.Name]; err != nil {
		return false, err
	}
	for i, old := range b.autoscalers {
		if old.Key == a.Key {
			next := *old
			next.Advice = adv
			next.StatusOutdated = false
			next.Remarked = slices.ContainsFunc(b.merge(a.Key, cs), func(c watcher.Condition) bool {
				return slices.Contains(v1alpha1.Conditions(), string(c.Type))
			})
			for _, c := range cs {
				if c.Type == v1alpha1.ConditionSizingProfileUsable {
					next.ProfileProblem = ""
					if c.Status == watcher.False {
						next.ProfileProblem = c.Reason
					}
				}
			}
			b.autoscalers[i] = &next
		}
	}
	b.written[a.Key] = cs
	b.writes++
	if b.writer != nil {
		return b.writer.WriteStatus(ctx, a, adv, now, cs...)
	}
	return true, nil
}

// WriteConditions writes conditions only.
func (b *bench) WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, cs ...watcher.Condition) (bool, error) {
	b.mu.Lock()
	b.conditionWrites++
	b.mu.Unlock()
	return b.WriteStatus(ctx, a, a.Advice, now, cs...)
}

// merge applies written conditions to those in the status of an autoscaler, and returns the result.
func (b *bench) merge(key cluster.Key, written []watcher.Condition) []watcher.Condition {
	status := b.stand[key]
	for _, c := range written {
		status = slices.DeleteFunc(status, func(old watcher.Condition) bool { return old.Type == c.Type })
		if c.Status != watcher.Removed {
			status = append(status, c)
		}
	}
	b.stand[key] = status
	return status
}

func (b *bench) Samples(context.Context) ([]usage.Sample, error) {
	if b.usageErr != nil {
		return nil, b.usageErr
	}
	var out []usage.Sample
	for _, p := range b.pods {
		for i := range p.Containers {
			u, own := b.useOf[p.Name]
			if !own {
				u = b.use[p.Containers[i].Name]
			}
			out = append(out, usage.Sample{Pod: p.Key, Container: p.Containers[i].Name, At: time.Now(),
				CPU: float64(u.CPU) / 1000, Memory: float64(u.Memory), Has: u.Has})
		}
	}
	return out, nil
}

func (b *bench) Load(context.Context) (map[checkpoint.Key]usage.Checkpoint, error) {
	if b.loadErrs > 0 {
		b.loadErrs--
		return nil, errors.New("the API server is away")
	}
	return maps.Clone(b.stored), nil
}

func (b *bench) Write(_ context.Context, k checkpoint.Key, c usage.Checkpoint) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(c.History.Data) > 0 {
		b.t.Error("a checkpoint was written with model state outside Extra")
	}
	b.stored[k] = c
	b.storeWrites++
	return nil
}

func (b *bench) Collect(_ context.Context, unused checkpoint.Unused) (int, error) {
	n := 0
	for k := range b.stored {
		if unused.Has(k) {
			delete(b.stored, k)
			n++
		}
	}
	return n, nil
}

// run runs a new recommender for a time. It ends without a shutdown, as if the process was killed.
func (b *bench) run(d time.Duration) *recommender { return b.during(d, func(time.Duration) {}) }

// during is like run, and calls between before each pass with the time since the first pass.
func (b *bench) during(d time.Duration, between func(time.Duration)) *recommender {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), d-time.Second)
	defer cancel()
	r := newRecommender(b.config, b.dependencies())
	if err := r.load(ctx); err != nil {
		b.t.Fatal(err)
	}
	began := time.Now()
	process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
		between(now.Sub(began))
		r.pass(ctx, now)
	})
	time.Sleep(time.Second)
	return r
}

func (b *bench) deployment(name string, replicas int, containers ...string) cluster.Workload {
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	for i := range replicas {
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", name, i)}, UID: fmt.Sprint(name, i),
			Top: top, Controller: top, Phase: cluster.Running, Created: time.Now()}
		for j, c := range containers {
			p.Containers = append(p.Containers, cluster.Container{Name: c, Index: uint8(j), Requests: cluster.Amounts(100, 50<<20)})
		}
		b.pods = append(b.pods, p)
	}
	return top
}

func (b *bench) autoscale(name string, w cluster.Workload) *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Target: w, Created: time.Now()}
	b.autoscalers = append(b.autoscalers, a)
	return a
}

func (b *bench) advice(name, container string) *cluster.Advice {
	b.t.Helper()
	for _, a := range b.autoscalers {
		if a.Name == name {
			if adv := a.AdviceFor(container); adv != nil {
				return adv
			}
		}
	}
	b.t.Fatalf("%s recommends nothing for %s", name, container)
	return nil
}

func (b *bench) condition(name string, kind v1.VerticalPodAutoscalerConditionType) watcher.Condition {
	i := slices.IndexFunc(b.written[cluster.Key{Namespace: "shop", Name: name}], func(c watcher.Condition) bool { return c.Type == kind })
	if i < 0 {
		return watcher.Condition{}
	}
	return b.written[cluster.Key{Namespace: "shop", Name: name}][i]
}

func TestRecommender_steadyUsage_recommendsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(10 * time.Minute)
		if got, want := b.advice("web", "app").Target, cluster.Amounts(350, 262144000); got != want {
			t.Errorf("target %v, want %v", got, want)
		}
		if c := b.condition("web", v1.RecommendationProvided); c.Status != watcher.True {
			t.Errorf("RecommendationProvided is %+v", c)
		}
	})
}

func TestRecommender_noSamples_makesNoRecommendation(t *testing.T) { // W-01
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.usageErr = errors.New("metrics-server is away")
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(10 * time.Minute)
		if a := b.autoscalers[0]; len(a.Advice) > 0 {
			t.Errorf("recommendation without samples: %+v", a.Advice)
		}
		if c := b.condition("web", v1.RecommendationProvided); c.Status != watcher.False {
			t.Errorf("RecommendationProvided is %+v", c)
		}
	})
}

func TestRecommender_metricsOutage_recommendationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.StatusInterval = 0 // so that the status is up to date before the outage
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(time.Hour)
		before := *b.advice("web", "app")
		b.usageErr = errors.New("metrics-server is away")
		b.run(time.Hour) // a new process, still without usage
		after := *b.advice("web", "app")
		if after.Target != before.Target || after.Lower != before.Lower {
			t.Errorf("recommendation changed from %+v to %+v", before, after)
		}
	})
}

func TestRecommender_killed_historyIsRestored(t *testing.T) {
	for _, life := range []time.Duration{90 * time.Second, 7 * time.Minute, time.Hour, 5*time.Hour + 13*time.Minute} {
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				w := b.deployment("web", 3, "app")
				b.autoscale("web", w)
				first := b.run(life)
				had, before := first.usageStore.Series(w, "app").Seen(cluster.CPU), *b.advice("web", "app")
				second := b.run(2 * time.Second) // one pass
				has, after := second.usageStore.Series(w, "app").Seen(cluster.CPU), *b.advice("web", "app")
				lost := float64(had.Count-has.Count) / float64(had.Count)
				if lost > 0.07 || had.First != has.First {
					t.Errorf("samples before the restart %+v, after it %+v", had, has)
				}
				if after.Target != before.Target {
					t.Errorf("target changed from %v to %v", before.Target, after.Target)
				}
			})
		})
	}
}

func TestRecommender_killedAfterOOMKill_higherMemoryIsKept(t *testing.T) { // W-08
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 40<<20)
		b.config.Sizing.FloorMegabytes = 10
		b.autoscale("web", b.deployment("web", 1, "app"))
		b.run(20 * time.Minute)
		before := b.advice("web", "app").Target.Memory
		b.pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-time.Minute), Finished: time.Now()}
		b.run(2 * time.Second) // killed after the pass that observed it
		raised := b.advice("web", "app").Target.Memory
		if raised < before+(100<<20) {
			t.Fatalf("memory target changed from %d to %d", before, raised)
		}
		b.run(2 * time.Second)
		if after := b.advice("web", "app").Target.Memory; after != raised {
			t.Errorf("memory target %d before the restart, %d after it", raised, after)
		}
	})
}

// For a minute, metrics are 10^6 times too high. No recommendation follows them, because no node has so much.
func TestRecommender_metricsFarTooHigh_recommendationsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes = []cluster.Node{{Name: "n", Ready: true, Allocatable: cluster.Amounts(8000, 32<<30), Capacity: cluster.Amounts(8000, 32<<30)}}
		b.use["app"] = cluster.Amounts(30, 50<<20)
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(24 * time.Hour)
		before := b.advice("web", "app").Target
		b.use["app"] = cluster.Amounts(30e6, 50e6<<20)
		b.run(time.Minute)
		b.use["app"] = cluster.Amounts(30, 50<<20)
		b.run(time.Minute)
		if after := b.advice("web", "app").Target; after != before {
			t.Errorf("the target changed from %v to %v", before, after)
		}
	})
}

func TestRecommender_day_writesFewCheckpoints(t *testing.T) { // S-02
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(24 * time.Hour)
		first := b.storeWrites
		if first > 24*6+60 { // each pass while the history is short, then every ten minutes
			t.Errorf("%d writes in a day", first)
		}
		b.usageErr = errors.New("away")
		b.run(24 * time.Hour)
		if n := b.storeWrites - first; n > 1 {
			t.Errorf("%d writes in a day without samples", n)
		}
	})
}

// While the condition FetchingHistory is True, upstream writes no checkpoint of the VPA.
func TestRecommender_fetchingHistory_storesNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app")).FetchingHistory = true
		b.autoscale("shop", b.deployment("shop", 3, "app"))
		b.run(time.Hour)
		if len(b.stored) != 1 || b.advice("web", "app") == nil {
			t.Errorf("%d checkpoints while history is fetched, recommendation %v", len(b.stored), b.advice("web", "app"))
		}
		for _, a := range b.autoscalers {
			a.FetchingHistory = false
		}
		b.run(time.Hour)
		if len(b.stored) != 2 {
			t.Errorf("%d checkpoints after history was fetched", len(b.stored))
		}
	})
}

func TestRecommender_checkpointsCannotBeRead_retriesBeforeFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		w := b.deployment("web", 3, "app")
		b.autoscale("web", w)
		b.run(2 * time.Hour)
		b.loadErrs = 4
		had := b.run(time.Minute).usageStore.Series(w, "app").Seen(cluster.CPU).Count
		if had < 300 {
			t.Errorf("%d samples", had)
		}
	})
}

func TestRecommender_targetTemporarilyUnresolvable_recommendationIsKept(t *testing.T) { // W-03
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app"))
		b.run(time.Hour)
		before := *b.advice("web", "app")
		b.problem = "Cannot read targetRef. Reason: Deployment shop/web does not exist"
		pods := b.pods
		b.pods = nil
		b.run(10 * time.Minute)
		if got := *b.advice("web", "app"); got.Target != before.Target {
			t.Errorf("target changed from %v to %v", before.Target, got.Target)
		}
		if c := b.condition("web", v1.ConfigUnsupported); c.Status != watcher.True || c.Message != b.problem {
			t.Errorf("ConfigUnsupported is %+v", c)
		}
		b.problem, b.pods = "", pods
		b.run(time.Minute)
		if c := b.condition("web", v1.ConfigUnsupported); c.Status != watcher.Removed {
			t.Errorf("ConfigUnsupported with a supported target is %+v", c)
		}
	})
}

func TestRecommender_twoVPAsWithOneTarget_youngerReportsConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		w := b.deployment("web", 3, "app")
		b.autoscale("old", w)
		time.Sleep(time.Second)
		b.autoscale("new", w)
		b.run(5 * time.Minute)
		if c := b.condition("new", v1alpha1.ConditionTargetConflict); c.Status != watcher.True {
			t.Errorf("TargetConflict of the younger VPA is %+v", c)
		}
		if c := b.condition("old", v1alpha1.ConditionTargetConflict); c.Status != watcher.Removed {
			t.Errorf("TargetConflict of the older VPA is %+v", c)
		}
		if b.advice("old", "app").Target != b.advice("new", "app").Target {
			t.Error("the recommendations for one workload differ")
		}
		twin := b.autoscale("zwilling", b.deployment("twins", 1, "app")) // created in the same second
		b.autoscale("anna", twin.Target)
		b.run(time.Minute)
		want := "VerticalPodAutoscaler anna names the same target and is as old, and comes first by name: it governs the pods, this one does not"
		if c := b.condition("zwilling", v1alpha1.ConditionTargetConflict); c.Status != watcher.True || c.Message != want {
			t.Errorf("TargetConflict of the second VPA by name is %+v", c)
		}
	})
}

// An older autoscaler in mode Off governs only when it has a startup boost and the feature gate is on: then it is the one whose boost
// new pods get, and the younger one reports the conflict.
func TestRecommender_olderAutoscalerIsOff_conflictIsReportedWhereItGoverns(t *testing.T) {
	for name, x := range map[string]struct{ gate, boost, conflict bool }{
		"off":                     {gate: true},
		"off, boost, gate closed": {boost: true},
		"off, boost, gate open":   {gate: true, boost: true, conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.config.Gates = process.Gates{process.CPUStartupBoost: x.gate}
				b.use["app"] = cluster.Amounts(300, 200<<20)
				w := b.deployment("web", 3, "app")
				old := b.autoscale("old", w)
				old.Mode = cluster.Off
				if x.boost {
					old.Boost = &cluster.Boost{Factor: 2}
				}
				time.Sleep(time.Second)
				b.autoscale("new", w)
				b.run(5 * time.Minute)
				want := watcher.Removed
				if x.conflict {
					want = watcher.True
				}
				if c := b.condition("new", v1alpha1.ConditionTargetConflict); string(c.Status) != want {
					t.Errorf("TargetConflict of the younger autoscaler is %+v, want status %s", c, want)
				}
				if c := b.condition("old", v1alpha1.ConditionTargetConflict); c.Status != watcher.Removed {
					t.Errorf("TargetConflict of the older autoscaler is %+v", c)
				}
			})
		})
	}
}

// The elected autoscaler selects the profile of the workload, and its recommendation is compared with usage.
func TestElected_twoAutoscalers_isTheOneThatChangesPodsOrTheOldest(t *testing.T) {
	for _, c := range []struct {
		older, younger cluster.Mode
		want           string
	}{
		{cluster.Off, cluster.Recreate, "younger"},
		{cluster.Recreate, cluster.Recreate, "older"},
		{cluster.Off, cluster.Off, "older"},
	} {
		b := newBench(t)
		w := b.deployment("web", 1, "app")
		older, younger := b.autoscale("older", w), b.autoscale("younger", w)
		older.Mode, younger.Mode = c.older, c.younger
		younger.Created = older.Created.Add(time.Second)
		r := newRecommender(b.config, b.dependencies())
		if got := r.elected(r.look(b.Snapshot()), w); got == nil || got.Name != c.want {
			t.Errorf("older VPA %v, younger VPA %v: elected %+v, want %s", c.older, c.younger, got, c.want)
		}
	}
}

func TestRecommender_deletedVPA_checkpointsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		b.autoscale("api", b.deployment("api", 1, "app"))
		b.run(10 * time.Minute)
		if len(b.stored) != 2 {
			t.Fatalf("%d checkpoints, want 2", len(b.stored))
		}
		b.autoscalers = b.autoscalers[:1]
		b.run(11 * time.Minute)
		if len(b.stored) != 1 {
			t.Errorf("%d checkpoints after the deletion, want 1", len(b.stored))
		}
	})
}

func TestRecommender_statusCannotBeWritten_othersAreWritten(t *testing.T) { // W-24, W-26
	for name, err := range map[string]error{
		"deleted during the pass": kube.ErrNotFound, "changed during the pass": kube.ErrConflict, "refused": errors.New("etcd is full"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				b.config.Workers = 1
				b.statusErr = map[string]error{}
				for i := range 20 {
					vpa := fmt.Sprintf("vpa-%d", i)
					b.autoscale(vpa, b.deployment(fmt.Sprintf("web-%d", i), 1, "app"))
					if i < 12 {
						b.statusErr[vpa] = err
					}
				}
				b.run(5 * time.Minute)
				for i := 12; i < 20; i++ {
					b.advice(fmt.Sprintf("vpa-%d", i), "app")
				}
				clear(b.statusErr)
				b.run(2 * time.Second)
				b.advice("vpa-0", "app")
			})
		})
	}
}

func TestRecommender_workloadsWithEqualLabels_haveSeparateHistories(t *testing.T) { // W-23: a pod belongs to its owner, not to a selector
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["small"] = cluster.Amounts(100, 300<<20)
		b.use["large"] = cluster.Amounts(4000, 3<<30)
		b.autoscale("a", b.deployment("a", 2, "small"))
		b.autoscale("b", b.deployment("b", 2, "large"))
		b.run(time.Hour)
		if got := b.advice("a", "small").Target.CPU; got > 200 {
			t.Errorf("target of the small workload: %dm", got)
		}
		for _, adv := range b.autoscalers[0].Advice {
			if adv.Container != "small" {
				t.Errorf("the small workload has a recommendation for container %s of the large one", adv.Container)
			}
		}
	})
}
