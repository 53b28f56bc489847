// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// given parses flags into a configuration that has its defaults.
func given(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A figure is one number of a recommendation.
func figures(a *cluster.Advice) map[string]int64 {
	out := map[string]int64{}
	for bound, r := range map[string]cluster.Resources{"lower": a.Lower, "target": a.Target, "upper": a.Upper} {
		for _, res := range cluster.All {
			out[bound+" "+res.String()] = r.Amount(res)
		}
	}
	return out
}

// aStory returns what is recommended after five days of usage that goes up and down, with an OOM kill on the fourth.
func aStory(t *testing.T, args ...string) map[string]int64 {
	t.Helper()
	b := newBench(t)
	b.config = given(t, args...)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := b.deployment("web", 1, "app", "idle")
	b.autoscale("web", w).Created = start
	source := &told{}
	d := b.dependencies()
	d.usage = always(source)
	r := newRecommender(b.config, d)
	for m := 0; m < 5*24*60; m += 20 {
		now := start.Add(time.Duration(m) * time.Minute)
		phase := float64(m%700) / 700
		*source = told{
			{Pod: b.pods[0].Key, Container: "app", At: now, CPU: 0.2 + 2*phase*phase, Memory: []float64{4e8, 9e8, 3e8, 8e8, 3e8}[m/(24*60)], Has: cluster.Both},
			{Pod: b.pods[0].Key, Container: "idle", At: now, CPU: 0.001, Memory: 1e6, Has: cluster.Both},
		}
		if m == 3*24*60+600 {
			p := *b.pods[0]
			p.Containers = slices.Clone(p.Containers)
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: now.Add(-time.Hour), Finished: now}
			b.pods[0] = &p
		}
		r.pass(t.Context(), now)
	}
	out := figures(b.advice("web", "app"))
	for k, v := range figures(b.advice("web", "idle")) {
		out["idle "+k] = v
	}
	return out
}

var (
	someCPU    = []string{"lower cpu", "target cpu", "upper cpu"}
	someMemory = []string{"lower memory", "target memory", "upper memory"}
)

// sizingFlags contains the flags that change recommendations, and the amounts that each changes.
var sizingFlags = map[string][]string{
	"recommendation-margin-fraction=0.5":              slices.Concat(someCPU, someMemory),
	"pod-recommendation-min-cpu-millicores=100":       {"idle lower cpu", "idle target cpu", "idle upper cpu"},
	"pod-recommendation-min-memory-mb=400":            {"idle lower memory", "idle target memory", "idle upper memory"},
	"target-cpu-percentile=0.6":                       {"target cpu"},
	"recommendation-lower-bound-cpu-percentile=0.2":   {"lower cpu"},
	"recommendation-upper-bound-cpu-percentile=1":     {"upper cpu"},
	"target-memory-percentile=0.3":                    {"target memory"},
	"recommendation-lower-bound-memory-percentile=.9": {"lower memory"},
	"recommendation-upper-bound-memory-percentile=.3": {"upper memory"},
	"confidence-interval-cpu=100h":                    {"lower cpu", "upper cpu"},
	"confidence-interval-memory=100h":                 {"lower memory", "upper memory"},
	"memory-aggregation-interval=1h":                  someMemory,
	"memory-histogram-decay-half-life=1h":             someMemory,
	"cpu-histogram-decay-half-life=1h":                someCPU,
	"oom-bump-up-ratio=3":                             someMemory,
	"oom-min-bump-up-bytes=3000000000":                someMemory,
	"round-cpu-millicores=1000":                       someCPU,
	"round-memory-bytes=1000000000":                   someMemory,
	"humanize-memory":                                 someMemory,
	"container-recommendation-max-allowed-cpu=300m":   someCPU,
	"container-recommendation-max-allowed-memory=1Mi": someMemory,
	"container-recommendation-max-allowed-cpu=1000":   {},
}

func TestEverySizingFlagIsInTheTable(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c := Defaults()
	c.Sizing.flags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		known := f.Name == "memory-aggregation-interval-count" // TestMemoryIsForgottenAfterTheIntervalsThatAreCounted
		for flag := range sizingFlags {
			name, _, _ := strings.Cut(flag, "=")
			known = known || name == f.Name
		}
		if !known {
			t.Errorf("nothing is said of --%s", f.Name)
		}
	})
}

// Each flag that decides numbers moves those that it is for, and no others.
func TestSizingFlagsMoveTheirNumbers(t *testing.T) {
	usual := aStory(t)
	for flag, moves := range sizingFlags {
		t.Run(flag, func(t *testing.T) {
			got := aStory(t, "--"+flag)
			moved := 0
			for name, was := range usual {
				switch ours := slices.Contains(moves, name); {
				case got[name] == was:
				case ours:
					moved++
				case strings.HasPrefix(name, "idle ") && slices.Contains(moves, strings.TrimPrefix(name, "idle ")):
				default:
					t.Errorf("%s went from %d to %d", name, was, got[name])
				}
			}
			if moved == 0 && len(moves) > 0 {
				t.Errorf("none of %v moved: %v", moves, got)
			}
		})
	}
}

func TestMemoryIsForgottenAfterTheIntervalsThatAreCounted(t *testing.T) {
	for flag, kept := range map[string]bool{"--memory-aggregation-interval-count=8": true, "--memory-aggregation-interval-count=1": false} {
		rc := given(t, flag)
		c := rc.Sizing.usage()
		b := usage.NewStore(c)
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		w := cluster.Workload{Kind: "Deployment", Name: "web"}
		pod := &cluster.Pod{Key: cluster.Key{Name: "web-0"}, UID: "1", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
		b.Track(pod)
		b.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: start, CPU: 1, Memory: 1e9, Has: cluster.Both})
		b.Forget(pod.Key)
		b.Release(w)
		b.Prune(start.Add(3 * 24 * time.Hour))
		if got := b.Series(w, "app") != nil; got != kept {
			t.Errorf("%s: after three days there is history: %t", flag, got)
		}
	}
}

func TestMemorySaverKeepsOnlyPodsThatAreGoverned(t *testing.T) {
	for flag, want := range map[string]int{"--memory-saver=false": 5, "--memory-saver": 3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 3, "app"))
			b.deployment("other", 2, "app")
			if pods, _ := b.run(5 * time.Minute).usageStore.Size(); pods != want {
				t.Errorf("%s: %d pods are kept, want %d", flag, pods, want)
			}
		})
	}
}

func TestWholeCoresWhereTheFlagAndTheAnnotationAskForThem(t *testing.T) {
	for flag, want := range map[string]int64{"--cpu-integer-post-processor-enabled=false": 350, "--cpu-integer-post-processor-enabled": 1000} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 1, "app")).IntegerCPU = []string{"app"}
			b.run(5 * time.Minute)
			if got := b.advice("web", "app").Target.CPU; got != want {
				t.Errorf("%s: %d", flag, got)
			}
		})
	}
}

// slow is a world whose writes take a minute, and never more of them at a time than are allowed.
type slow struct {
	*bench
	now, most atomic.Int32
}

func (s *slow) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestAsManyWritersAsTheFlagSays(t *testing.T) {
	for _, workers := range []int32{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, fmt.Sprint("--update-worker-count=", workers))
			b.use["app"] = cluster.Amounts(300, 200<<20)
			for i := range 9 {
				name := fmt.Sprint("web-", i)
				b.autoscale(name, b.deployment(name, 1, "app"))
			}
			s := &slow{bench: b}
			d := b.dependencies()
			d.world = s
			r := newRecommender(b.config, d)
			r.pass(t.Context(), time.Now())
			if got := s.most.Load(); got != workers {
				t.Errorf("%d write at a time, the flag says %d", got, workers)
			}
		})
	}
}

// stuck is a store whose writes end only with their context.
type stuck struct{ *bench }

func (stuck) Write(ctx context.Context, _ checkpoint.CheckpointKey, _ usage.Checkpoint) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestStoringTakesNoLongerThanTheFlagSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config = given(t, "--checkpoints-timeout=7s")
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		d := b.dependencies()
		d.storage.checkpoints = stuck{b}
		r := newRecommender(b.config, d)
		start := time.Now()
		r.pass(t.Context(), start)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("a pass took %v", took)
		}
	})
}

func TestOrphansAreLookedForAsOftenAsTheFlagSays(t *testing.T) {
	for flag, left := range map[string]int{"--checkpoints-gc-interval=30m": 2, "--checkpoints-gc-interval=2m": 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 1, "app"))
			b.autoscale("api", b.deployment("api", 1, "app"))
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute-time.Second)
			defer cancel()
			r := newRecommender(b.config, b.dependencies())
			process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
				if len(b.stored) == 2 && len(b.autoscalers) == 2 && now.Minute()%30 >= 5 {
					b.autoscalers = b.autoscalers[:1]
				}
				r.pass(ctx, now)
			})
			if len(b.autoscalers) != 1 || len(b.stored) != left {
				t.Errorf("%s: of 2 checkpoints %d are left, of %d autoscalers", flag, len(b.stored), len(b.autoscalers))
			}
		})
	}
}

func TestPrometheusIsAskedWhatTheFlagsSay(t *testing.T) {
	var asked []string
	var spans []float64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Form.Get("query")+" step "+r.Form.Get("step"))
		var from, to float64
		fmt.Sscan(r.Form.Get("start"), &from)
		fmt.Sscan(r.Form.Get("end"), &to)
		spans = append(spans, to-from)
		if strings.Contains(r.Form.Get("query"), "slow_metric") {
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{}}})
	}))
	defer srv.Close()
	ask := func(args ...string) error {
		asked, spans = nil, nil
		c := given(t, append([]string{"--storage=prometheus", "--prometheus-address=" + srv.URL}, args...)...)
		client, err := c.History.client(NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		return client.History(t.Context(), "shop", time.Now(), func(usage.Sample) {})
	}
	if err := ask("--prometheus-cadvisor-job-name=kubelet", "--history-cpu-metric=cores", "--history-memory-metric=ram",
		"--history-length=4h", "--history-resolution=2m"); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || !strings.Contains(asked[0], `rate(cores{job="kubelet",`) || !strings.Contains(asked[0], "[120s]))") ||
		!strings.HasSuffix(asked[0], "step 120") || !strings.Contains(asked[1], `ram{job="kubelet",`) {
		t.Errorf("asked %q", asked)
	}
	if len(spans) != 2 || spans[0] != 4*3600 {
		t.Errorf("over %v seconds", spans)
	}
	if err := ask("--history-length=1h", "--prometheus-cadvisor-job-name="); err != nil || strings.Contains(strings.Join(asked, " "), "job=") {
		t.Errorf("without a job: %v, %q", err, asked)
	}
	if err := ask("--history-cpu-metric=slow_metric", "--prometheus-query-timeout=50ms"); err == nil {
		t.Error("a query may take for ever")
	}
}

func TestNamespacesOfUsageHaveTheirLabel(t *testing.T) {
	var query string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		query = r.Form.Get("query")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{}}})
	}))
	defer srv.Close()
	c := given(t, "--prometheus-address="+srv.URL, "--container-namespace-label=project", "--history-length=1h")
	client, err := c.History.client(NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.History(t.Context(), "shop", time.Now(), func(usage.Sample) {}); err != nil || !strings.Contains(query, `project="shop"`) {
		t.Errorf("asked %q, %v", query, err)
	}
}

func TestUsageComesFromWhereTheFlagsSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags []string
		want  any
	}{
		"by default":       {nil, &metrics.Client{}},
		"external":         {[]string{"--use-external-metrics", "--external-metrics-cpu-metric=cores"}, &externalUsage{}},
		"external, memory": {[]string{"--use-external-metrics", "--external-metrics-memory-metric=ram"}, &externalUsage{}},
		"of no name":       {[]string{"--use-external-metrics"}, nil},
	} {
		c := given(t, append(tt.flags, "--kubeconfig="+path)...)
		clients, err := c.Connect(slog.New(slog.DiscardHandler), "test")
		if err != nil {
			t.Fatal(err)
		}
		source, err := c.source(clients, nil, NewMetrics(prometheus.NewRegistry()), nil)
		if tt.want == nil {
			if err == nil || !strings.Contains(err.Error(), "--external-metrics-cpu-metric") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := source(nil); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", tt.want) {
			t.Errorf("%s: %T", name, got)
		}
	}
}

// What the gate makes of the same objects in the updater and the webhook is tested there.
func TestGatesOpenWhatTheyAreFor(t *testing.T) {
	for set, want := range map[string]float64{"": 1.2, "PerVPAConfig=true": 3} {
		b := newBench(t)
		b.config = given(t, "--feature-gates="+set, "--oom-min-bump-up-bytes=0", "--pod-recommendation-min-memory-mb=1")
		a := b.autoscale("web", b.deployment("web", 1, "app"))
		a.Policies = []cluster.ContainerPolicy{{Container: "app", OOMBumpRatio: 3}}
		d := b.dependencies()
		d.usage = always(&told{})
		r := newRecommender(b.config, d)
		now := time.Now()
		r.pass(t.Context(), now)
		b.pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Started: now.Add(-time.Hour), Finished: now.Add(time.Second)}
		r.pass(t.Context(), now.Add(time.Minute))
		if _, got := r.usageStore.Series(a.Target, "app").LastOOM(); float64(got) != want*50*(1<<20) {
			t.Errorf("with %q: needed %d, want %v times what was requested", set, got, want)
		}
	}
}
